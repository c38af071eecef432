/**
 * Describes a plan, one line per record: the kernel chosen, its operands and results, and where
 * threads meet.
 */
import { barriers, type GraphPlan } from '../graph/plan.ts';
import type { Explained } from '../graph/record.ts';
import { shape, type Tensor } from '../graph/tensor.ts';

export function explainPlan(plan: GraphPlan, of: Explained): string {
  const meet = barriers(plan.records);
  return plan.records
    .map((r, i) => {
      const sources = r.src.filter((t): t is Tensor => t !== undefined).map(shape);
      return `${meet[i] ? 'meet ' : '     '}${r.code}${r.how ? ` (${typeof r.how === 'function' ? r.how(of) : r.how})` : ''}: ${sources.join(', ')} -> ${[r.dst, ...(r.casts ?? [])].map(shape).join(' and ')}`;
    })
    .join('\n');
}
