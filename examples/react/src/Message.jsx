/** One message: its texts, and the tools that ran for it. */
export function Message({ message: { role, parts, metadata } }) {
  return (
    <article className={role}>
      {parts.map((part, i) => (
        <Part key={i} part={part} />
      ))}
      {metadata && <small>{metadata.tokensPerSecond.toFixed(1)} tokens/s</small>}
    </article>
  );
}

function Part({ part }) {
  if (part.type === 'text') return <p>{part.text}</p>;
  if (part.type === 'reasoning') return <p className="reasoning">{part.text}</p>;
  if (!part.type.startsWith('tool-')) return null;
  return (
    <p className="tool">
      {part.type.slice('tool-'.length)} {JSON.stringify(part.input)}: {part.errorText ?? part.output ?? '...'}
    </p>
  );
}
