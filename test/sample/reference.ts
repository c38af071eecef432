/**
 * Slow, obvious samplers over arrays of objects, written from the papers. src/sample is compared
 * with them.
 */
export interface Token {
  id: number;
  logit: number;
}

export const byLogit = (tokens: Token[]): Token[] => [...tokens].sort((a, b) => b.logit - a.logit || a.id - b.id);

export function probabilities(tokens: Token[]): number[] {
  const max = Math.max(...tokens.map((t) => t.logit));
  const weights = tokens.map((t) => Math.exp(t.logit - max));
  const sum = weights.reduce((a, b) => a + b, 0);
  return weights.map((w) => w / sum);
}

export function entropy(p: number[]): number {
  return -p.filter((v) => v > 0).reduce((sum, v) => sum + v * Math.log(v), 0);
}

export const topK = (tokens: Token[], k: number): Token[] => byLogit(tokens).slice(0, k);

export function topP(tokens: Token[], p: number, minKeep = 0): Token[] {
  const sorted = byLogit(tokens);
  const share = probabilities(sorted);
  for (let n = 1; n < sorted.length; n++) {
    if (n >= minKeep && share.slice(0, n).reduce((a, b) => a + b, 0) >= p) return sorted.slice(0, n);
  }
  return sorted;
}

export function minP(tokens: Token[], least: number, minKeep = 0): Token[] {
  const sorted = byLogit(tokens);
  const share = probabilities(sorted);
  return sorted.filter((_, i) => i < minKeep || share[i] >= least * share[0]);
}

export function topNSigma(tokens: Token[], n: number): Token[] {
  const mean = tokens.reduce((sum, t) => sum + t.logit, 0) / tokens.length;
  const deviation = Math.sqrt(tokens.reduce((sum, t) => sum + (t.logit - mean) ** 2, 0) / tokens.length);
  const max = Math.max(...tokens.map((t) => t.logit));
  return tokens.filter((t) => t.logit >= max - n * deviation);
}

export function typical(tokens: Token[], p: number, minKeep = 0): Token[] {
  const share = probabilities(tokens);
  const expected = entropy(share);
  const order = tokens
    .map((token, i) => ({ token, p: share[i], distance: Math.abs(-Math.log(share[i]) - expected) }))
    .sort((a, b) => a.distance - b.distance);
  for (let n = 1; n < order.length; n++) {
    if (n >= minKeep && order.slice(0, n).reduce((sum, o) => sum + o.p, 0) > p) return order.slice(0, n).map((o) => o.token);
  }
  return tokens;
}

export function xtc(tokens: Token[], threshold: number): Token[] {
  const sorted = byLogit(tokens);
  const share = probabilities(sorted);
  const likely = share.filter((p) => p >= threshold).length;
  return likely > 1 ? sorted.slice(likely - 1) : sorted;
}

export function dynamicTemperature(tokens: Token[], t: number, range: number, exponent: number): Token[] {
  const share = entropy(probabilities(tokens)) / Math.log(tokens.length);
  const low = Math.max(0, t - range);
  const dynamic = low + (t + range - low) * share ** exponent;
  return tokens.map(({ id, logit }) => ({ id, logit: logit / dynamic }));
}

/**
 * DRY by trying every suffix and every earlier position. `breaks[i]`: a sequence breaker ends in
 * token i.
 */
export function dryPenalties(
  history: number[],
  breaks: boolean[],
  multiplier: number,
  base: number,
  allowedLength: number,
): Map<number, number> {
  const penalties = new Map<number, number>();
  const last = breaks.lastIndexOf(true);
  const longest = history.length - 1 - last;
  for (let end = 0; end < history.length - 1; end++) {
    let n = 0;
    while (n < longest && n <= end && history[end - n] === history[history.length - 1 - n]) n++;
    if (n === 0 || n < allowedLength) continue;
    const next = history[end + 1];
    const penalty = multiplier * base ** (n - allowedLength);
    penalties.set(next, Math.max(penalties.get(next) ?? 0, penalty));
  }
  return penalties;
}
