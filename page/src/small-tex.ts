/**
 * TeX to MathML for the page that servers serve, limited to what models write most. Temml, which
 * the other page uses, supports all of TeX but is as large as the rest of this page, more than the
 * package has room for. A formula that is not supported is refused and shown as TeX.
 */
import { escaped } from './html.ts';
import type { Typeset } from './math.ts';

const pairs = (list: string): Map<string, string> => new Map(list.split(' ').map((pair) => pair.split('=') as [string, string]));

const LETTERS = pairs(
  'alpha=α beta=β gamma=γ delta=δ epsilon=ϵ varepsilon=ε zeta=ζ eta=η theta=θ vartheta=ϑ iota=ι kappa=κ lambda=λ mu=μ nu=ν xi=ξ pi=π varpi=ϖ rho=ρ varrho=ϱ sigma=σ varsigma=ς tau=τ upsilon=υ phi=ϕ varphi=φ chi=χ psi=ψ omega=ω Gamma=Γ Delta=Δ Theta=Θ Lambda=Λ Xi=Ξ Pi=Π Sigma=Σ Upsilon=Υ Phi=Φ Psi=Ψ Omega=Ω infty=∞ partial=∂ nabla=∇ hbar=ℏ ell=ℓ Re=ℜ Im=ℑ aleph=ℵ emptyset=∅ varnothing=∅ top=⊤ bot=⊥ angle=∠ degree=° dots=… ldots=… cdots=⋯ vdots=⋮ ddots=⋱ imath=ı jmath=ȷ square=□ triangle=△ prime=′ checkmark=✓ %=% $=$ #=# &=&amp; _=_',
);
const OPERATORS = pairs(
  'times=× div=÷ cdot=⋅ pm=± mp=∓ ast=∗ star=⋆ circ=∘ bullet=∙ oplus=⊕ ominus=⊖ otimes=⊗ odot=⊙ wedge=∧ land=∧ vee=∨ lor=∨ cap=∩ cup=∪ setminus=∖ neg=¬ lnot=¬ leq=≤ le=≤ geq=≥ ge=≥ neq=≠ ne=≠ equiv=≡ approx=≈ sim=∼ simeq=≃ cong=≅ propto=∝ ll=≪ gg=≫ subset=⊂ supset=⊃ subseteq=⊆ supseteq=⊇ subsetneq=⊊ in=∈ notin=∉ ni=∋ mid=| parallel=∥ perp=⊥ forall=∀ exists=∃ nexists=∄ therefore=∴ because=∵ to=→ rightarrow=→ leftarrow=← gets=← leftrightarrow=↔ Rightarrow=⇒ Leftarrow=⇐ Leftrightarrow=⇔ implies=⟹ impliedby=⟸ iff=⟺ longrightarrow=⟶ longleftarrow=⟵ Longrightarrow=⟹ mapsto=↦ hookrightarrow=↪ rightharpoonup=⇀ rightleftharpoons=⇌ uparrow=↑ downarrow=↓ updownarrow=↕ models=⊨ vdash=⊢ prec=≺ succ=≻ preceq=⪯ succeq=⪰ doteq=≐ triangleq=≜ colon=: coloneqq=≔ lvert=| rvert=| lVert=‖ rVert=‖ langle=⟨ rangle=⟩ lfloor=⌊ rfloor=⌋ lceil=⌈ rceil=⌉ {={ }=} |=‖ vert=| Vert=‖ backslash=\\',
);
/** Operators with limits above and below in display formulas. */
const LARGE = pairs('sum=∑ prod=∏ coprod=∐ bigcup=⋃ bigcap=⋂ bigoplus=⨁ bigotimes=⨂ bigvee=⋁ bigwedge=⋀');
const INTEGRALS = pairs('int=∫ iint=∬ iiint=∭ oint=∮');
const FUNCTIONS = new Set(
  'sin cos tan cot sec csc sinh cosh tanh coth arcsin arccos arctan log ln lg exp det dim ker deg arg gcd hom Pr lim max min sup inf limsup liminf argmax argmin'.split(
    ' ',
  ),
);
const WITH_LIMITS = /^(lim|max|min|sup|inf|det|gcd|Pr|limsup|liminf|argmax|argmin)$/;
const ACCENTS = pairs(
  'hat=ˆ widehat=ˆ bar=¯ overline=¯ vec=→ overrightarrow=→ dot=˙ ddot=¨ tilde=~ widetilde=~ check=ˇ breve=˘ acute=´ grave=`',
);
const STRETCHED = /^(wide|over)/;
const VARIANTS = pairs(
  'mathbb=double-struck mathcal=script mathscr=script mathfrak=fraktur mathbf=bold boldsymbol=bold bm=bold mathsf=sans-serif mathtt=monospace',
);
const TEXTS = /^(text|textrm|textit|textbf|textsf|texttt|mathrm|mbox|operatorname|rm)$/;
const SPACES = pairs('quad=1em qquad=2em ,=.167em :=.222em ;=.278em !=-.167em enspace=.5em thinspace=.167em');
const FENCES = pairs(
  'matrix= pmatrix=() bmatrix=[] Bmatrix={} vmatrix=|| Vmatrix=‖‖ cases={ array= aligned= align= split= gathered= gather= smallmatrix=',
);

/**
 * First code points of the capitals, small letters and digits of each Unicode alphabet (bold,
 * script and others).
 */
const ALPHABETS: Readonly<Record<string, readonly [number, number, number]>> = {
  'double-struck': [0x1d538, 0x1d552, 0x1d7d8],
  script: [0x1d49c, 0x1d4b6, 0],
  fraktur: [0x1d504, 0x1d51e, 0],
  bold: [0x1d400, 0x1d41a, 0x1d7ce],
  'sans-serif': [0x1d5a0, 0x1d5ba, 0x1d7e2],
  monospace: [0x1d670, 0x1d68a, 0x1d7f6],
};
/** Letters that Unicode had before these alphabets, at other code points. */
const EARLIER = pairs(
  'double-struckC=ℂ double-struckH=ℍ double-struckN=ℕ double-struckP=ℙ double-struckQ=ℚ double-struckR=ℝ double-struckZ=ℤ scriptB=ℬ scriptE=ℰ scriptF=ℱ scriptH=ℋ scriptI=ℐ scriptL=ℒ scriptM=ℳ scriptR=ℛ scripte=ℯ scriptg=ℊ scripto=ℴ frakturC=ℭ frakturH=ℌ frakturI=ℑ frakturR=ℜ frakturZ=ℨ',
);

function inVariant(char: string, variant: string): string {
  const earlier = EARLIER.get(variant + char);
  if (earlier) return earlier;
  const [capitals, small, digits] = ALPHABETS[variant];
  const code = char.charCodeAt(0);
  if (char >= 'A' && char <= 'Z') return String.fromCodePoint(capitals + code - 65);
  if (char >= 'a' && char <= 'z') return String.fromCodePoint(small + code - 97);
  return digits && char >= '0' && char <= '9' ? String.fromCodePoint(digits + code - 48) : char;
}

const mo = (text: string, more = ''): string => `<mo${more}>${text}</mo>`;
const row = (parts: readonly string[]): string => (parts.length === 1 ? parts[0] : `<mrow>${parts.join('')}</mrow>`);

/** @param limits puts the scripts above and below instead of at the side */
function withScripts(base: string, below: string | undefined, above: string | undefined, limits: boolean): string {
  if (below === undefined && above === undefined) return base;
  const [under, over, both] = limits ? ['munder', 'mover', 'munderover'] : ['msub', 'msup', 'msubsup'];
  const tag = below === undefined ? over : above === undefined ? under : both;
  return `<${tag}>${base}${below ?? ''}${above ?? ''}</${tag}>`;
}

class Parser {
  private at = 0;
  private variant = '';
  private readonly tokens: string[];
  private readonly display: boolean;
  constructor(tex: string, display: boolean) {
    this.tokens = tex.match(/\\(?:[a-zA-Z]+\*?|[^])|\s+|\d[\d.]*|[^]/gu) ?? [];
    this.display = display;
  }

  private peek(): string | undefined {
    return this.tokens[this.at];
  }

  private skipSpace(): void {
    while (/^\s/.test(this.peek() ?? '')) this.at++;
  }

  /** @throws always: this page cannot typeset the formula */
  private refuse(what = this.peek()): never {
    throw new Error(`the formula has ${JSON.stringify(what ?? 'an end')} where this page knows nothing to set`);
  }

  private expect(token: string): void {
    this.skipSpace();
    if (this.peek() !== token) this.refuse();
    this.at++;
  }

  /** Parses everything up to one of these tokens. */
  rowUntil(...ends: readonly (string | undefined)[]): string[] {
    const parts: string[] = [];
    for (;;) {
      this.skipSpace();
      if (ends.includes(this.peek())) return parts;
      if (this.peek() === undefined) this.refuse();
      parts.push(this.scripted());
    }
  }

  /** An atom with its subscript and superscript. */
  private scripted(): string {
    const name = this.peek()!.slice(1);
    const isFunction = this.peek()!.startsWith('\\') && FUNCTIONS.has(name);
    const isLarge = this.peek()!.startsWith('\\') && (LARGE.has(name) || WITH_LIMITS.test(name) || /^(under|over)brace$/.test(name));
    const base = /^[\^_]$/.test(this.peek()!) ? '<mrow></mrow>' : this.atom();
    let limits = isLarge && (this.display || /brace$/.test(name));
    let below: string | undefined;
    const above: string[] = [];
    for (;;) {
      this.skipSpace();
      const next = this.peek();
      if (next === '\\limits' || next === '\\nolimits') limits = next === '\\limits';
      else if (next === "'") above.push(mo('′'));
      else if (next === '_' && below === undefined) {
        this.at++;
        below = this.argument();
        continue;
      } else if (next === '^') {
        this.at++;
        above.push(this.argument());
        continue;
      } else break;
      this.at++;
    }
    const whole = withScripts(base, below, above.length > 0 ? row(above) : undefined, limits);
    return isFunction && !/^[(\])}&^_]|^\\/.test(this.peek() ?? ')') ? `${whole}<mspace width=".167em"></mspace>` : whole;
  }

  /** A group, or the next atom. */
  private argument(): string {
    this.skipSpace();
    const next = this.peek();
    if (next === undefined || next === '}' || next === '&') this.refuse();
    // In "x^23" only the first digit is the superscript.
    if (/^\d./.test(next)) this.tokens.splice(this.at, 1, next[0], next.slice(1));
    return this.atom();
  }

  /** The text of a group, unparsed. */
  private words(): string {
    this.expect('{');
    let text = '';
    for (let depth = 1; ; this.at++) {
      const token = this.peek() ?? this.refuse();
      if (token === '{') depth++;
      else if (token === '}' && --depth === 0) break;
      else if (/^\\[a-zA-Z]/.test(token)) this.refuse();
      else text += token.replace(/^\\/, '').replaceAll('~', '\u00a0');
    }
    this.at++;
    return escaped(text);
  }

  private atom(): string {
    const token = this.peek() ?? this.refuse();
    this.at++;
    if (token === '{') {
      const before = this.variant;
      const parts = this.rowUntil('}');
      this.at++;
      this.variant = before;
      return row(parts);
    }
    if (token.startsWith('\\')) return this.command(token.slice(1));
    if (/^\d/.test(token)) return `<mn>${[...token].map((digit) => this.styled(digit)).join('')}</mn>`;
    if (/^\p{L}/u.test(token)) return this.letter(token);
    if (token === '~') return '<mspace width=".333em"></mspace>';
    if (/^[}&^_#$%]$/.test(token)) this.refuse(token);
    const text = { '-': '−', '*': '∗', "'": '′' }[token] ?? escaped(token);
    return mo(text, /^[()[\]|/]$/.test(token) ? ' stretchy="false"' : '');
  }

  private styled(char: string): string {
    return this.variant ? inVariant(char, this.variant) : char;
  }

  private letter(char: string): string {
    return `<mi>${this.styled(char)}</mi>`;
  }

  private command(name: string): string {
    const letter = LETTERS.get(name);
    if (letter) return `<mi>${letter}</mi>`;
    const operator = OPERATORS.get(name);
    if (name === 'mid') return mo('|', ' lspace=".22em" rspace=".22em" stretchy="false"');
    if (operator) return mo(operator, /^[|‖⟨⟩⌊⌋⌈⌉{}]$/.test(operator) ? ' stretchy="false"' : '');
    const large = LARGE.get(name) ?? INTEGRALS.get(name);
    if (large) return mo(large, LARGE.has(name) ? ' movablelimits="false"' : '');
    if (FUNCTIONS.has(name)) return `<mi>${name.replace(/^(lim|arg)(?=sup|inf|max|min)/, '$1 ')}</mi>`;
    const space = name === ' ' ? '.333em' : SPACES.get(name);
    if (space) return `<mspace width="${space}"></mspace>`;
    const accent = ACCENTS.get(name);
    if (accent) return `<mover accent="true">${this.argument()}${mo(accent, ` stretchy="${STRETCHED.test(name)}"`)}</mover>`;
    const variant = VARIANTS.get(name);
    if (variant) return this.inVariant(variant);
    if (TEXTS.test(name))
      return name === 'operatorname' ? `<mi mathvariant="normal">${this.words()}</mi>` : `<mtext>${this.words()}</mtext>`;
    return this.structure(name);
  }

  private inVariant(variant: string): string {
    const before = this.variant;
    this.variant = variant;
    const inner = this.argument();
    this.variant = before;
    return inner;
  }

  private structure(name: string): string {
    if (/^[dtc]?frac$/.test(name)) return `<mfrac>${this.argument()}${this.argument()}</mfrac>`;
    if (/^[dt]?binom$/.test(name)) return row([mo('('), `<mfrac linethickness="0">${this.argument()}${this.argument()}</mfrac>`, mo(')')]);
    if (name === 'sqrt') return this.root();
    if (name === 'left') return this.fenced();
    if (/^[bB]igg?[lrm]?$/.test(name)) return mo(this.delimiter(), ' stretchy="false"');
    if (name === 'begin') return this.environment();
    if (name === 'boxed') return `<mrow class="framed">${this.argument()}</mrow>`;
    if (name === 'underline') return `<munder>${this.argument()}${mo('_', ' stretchy="true"')}</munder>`;
    if (name === 'overbrace') return `<mover>${this.argument()}${mo('⏞', ' stretchy="true"')}</mover>`;
    if (name === 'underbrace') return `<munder>${this.argument()}${mo('⏟', ' stretchy="true"')}</munder>`;
    if (name === 'overset' || name === 'stackrel') return this.stacked('mover');
    if (name === 'underset') return this.stacked('munder');
    if (name === 'not') return this.atom().replace(/(?=<\/m[io]>$)/, '\u0338');
    if (name === 'bmod') return mo('mod');
    if (name === 'pmod') return row([mo('('), mo('mod'), this.argument(), mo(')')]);
    if (/^(displaystyle|textstyle|nonumber|notag)$/.test(name)) return '';
    return this.refuse(`\\${name}`);
  }

  private stacked(tag: string): string {
    const script = this.argument();
    return `<${tag}>${this.argument()}${script}</${tag}>`;
  }

  private root(): string {
    this.skipSpace();
    if (this.peek() !== '[') return `<msqrt>${this.argument()}</msqrt>`;
    this.at++;
    const index = row(this.rowUntil(']'));
    this.at++;
    return `<mroot>${this.argument()}${index}</mroot>`;
  }

  private delimiter(): string {
    this.skipSpace();
    const token = this.peek() ?? this.refuse();
    this.at++;
    if (token === '.') return '';
    const text = token.startsWith('\\') ? OPERATORS.get(token.slice(1)) : /^[()[\]|/<>]$/.test(token) ? token : undefined;
    return { '<': '⟨', '>': '⟩' }[text ?? ''] ?? text ?? this.refuse(token);
  }

  private fenced(): string {
    const open = this.delimiter();
    const parts = this.rowUntil('\\right', '\\middle');
    while (this.peek() === '\\middle') {
      this.at++;
      parts.push(mo(this.delimiter(), ' stretchy="true"'), ...this.rowUntil('\\right', '\\middle'));
    }
    this.at++;
    const close = this.delimiter();
    return row([mo(open, ' fence="true" stretchy="true"'), ...parts, mo(close, ' fence="true" stretchy="true"')]);
  }

  private environment(): string {
    const name = this.words().replace(/\*$/, '');
    const fences = FENCES.get(name) ?? this.refuse(name);
    if (name === 'array') this.words();
    const rows = [[] as string[]];
    for (;;) {
      rows.at(-1)!.push(`<mtd>${this.rowUntil('&', '\\\\', '\\end').join('')}</mtd>`);
      const end = this.peek();
      this.at++;
      if (end === '\\end') break;
      if (end === '\\\\') {
        rows.push([]);
        if (this.peek() === '[') while (this.tokens[this.at++] !== ']') if (this.peek() === undefined) this.refuse();
      }
    }
    if (this.words().replace(/\*$/, '') !== name) this.refuse(name);
    if (rows.length > 1 && rows.at(-1)!.join('') === '<mtd></mtd>') rows.pop();
    const kind = /^(aligned|align|split)$/.test(name) ? ' class="aligned" displaystyle="true"' : name === 'cases' ? ' class="cases"' : '';
    const table = `<mtable${kind}>${rows.map((cells) => `<mtr>${cells.join('')}</mtr>`).join('')}</mtable>`;
    const [open, close] = fences;
    return open
      ? row([mo(open, ' fence="true" stretchy="true"'), table, ...(close ? [mo(close, ' fence="true" stretchy="true"')] : [])])
      : table;
  }
}

export const typeset: Typeset = (tex, display) =>
  `<math${display ? ' display="block"' : ''}>${row(new Parser(tex, display).rowUntil(undefined))}</math>`;
