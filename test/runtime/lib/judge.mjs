// Compares a runtime's results with native's ids and with the reference runtime's kernels.

/** f32 sums of 1024 products may be in another order, with or without fused multiply-add. */
const DOT_TOLERANCE = 1e-4;

/**
 * @param out result of portable.mjs runAll (or server-side.mjs)
 * @param reference kernel results to compare with; undefined: this runtime is the reference, and
 * its builds must agree with each other
 */
export function judge(out, reference) {
  const faults = out.models.filter((m) => m.fault).map((m) => `${m.build} ${m.threads} threads: ${m.fault}`);
  // A build gives the same ids for any number of threads; relaxed and plain builds agree within
  // native's noise (greedyFault).
  const byBuild = new Map();
  for (const { build, ids } of out.models) {
    const key = build.replace('-threads', '');
    const known = byBuild.get(key) ?? ids;
    byBuild.set(key, known);
    if (build !== 'default' && known.join() !== ids.join()) faults.push(`${build}: ids differ between thread counts`);
  }
  const against = reference ?? out.kernels.simd;
  for (const [build, { hashes, dots }] of Object.entries(out.kernels)) {
    if (Object.keys(hashes).length < 10) faults.push(`${build}: only ${Object.keys(hashes).length} kernels ran`);
    for (const [name, hash] of Object.entries(hashes))
      if (against.hashes[name] !== hash)
        faults.push(`${build} ${name}: bytes hash to ${hash}, in the reference to ${against.hashes[name]}`);
    const scale = Math.max(...Object.values(against.dots).map(Math.abs));
    for (const [name, value] of Object.entries(dots))
      if (!(Math.abs(value - against.dots[name]) <= DOT_TOLERANCE * scale))
        faults.push(`${build} ${name}: ${value}, in the reference ${against.dots[name]}`);
  }
  const { pictures } = out;
  faults.push(...(pictures?.faults ?? []).map((fault) => `picture ${fault}`));
  const seen = pictures ? `, ${pictures.decoded} pictures decoded, ${pictures.answered} prompts with pictures` : '';
  const builds = [...new Set(out.models.map((m) => m.build))];
  const threads = Math.max(...out.models.map((m) => m.threads));
  return {
    faults,
    kernels: against,
    relaxed: builds.some((b) => /^(relaxed|dotadd)/.test(b)) ? 'yes' : 'no',
    threads: builds.some((b) => b.endsWith('-threads')) ? 'yes' : threads > 1 ? 'yes' : 'no',
    checked: `kernels of ${Object.keys(out.kernels).length} builds, model ${out.models.length} times${seen}`,
  };
}
