/** Sums over many simulations, for people. */
import { FaultKind } from "@slipway/testing/simulation/Faults"
import type { Result } from "@slipway/testing/simulation/Simulation"

export class Totals {
  readonly counts = new Map<string, number>()
  seeds = 0
  steps = 0
  millis = 0

  add({ counts, millis, steps }: Pick<Result, "counts" | "millis" | "steps">): void {
    this.seeds += 1
    this.steps += steps
    this.millis += millis
    for (const [what, count] of counts) this.counts.set(what, (this.counts.get(what) ?? 0) + count)
  }

  of(what: string): number {
    return this.counts.get(what) ?? 0
  }

  /** Faults first, then the rest by name. */
  get table(): string {
    const faults: ReadonlyArray<string> = FaultKind
    const rest = [...this.counts.keys()].filter((what) => !faults.includes(what)).toSorted()
    const line = (what: string) => `  ${String(this.of(what)).padStart(9)}  ${what}\n`
    return `faults\n${faults.map(line).join("")}what became of it\n${rest.map(line).join("")}`
  }
}
