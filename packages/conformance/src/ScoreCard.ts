/** The result of a run, for people and for programs. */
import { areas, type Area } from "./rules/Rule.ts"

/** The outcome of one rule. */
export interface Verdict {
  readonly id: string
  readonly area: Area
  readonly rule: string
  readonly source: string
  readonly verdict: "ok" | "missed" | "skipped"
  /** The expected and the actual result, or why the rule was skipped. One line. */
  readonly detail: string | null
}

/** Numbers of rules. */
export interface Totals {
  readonly ok: number
  readonly missed: number
  readonly skipped: number
}

/** Counts verdicts. */
export const totals = (verdicts: ReadonlyArray<Verdict>): Totals => {
  const of = (verdict: Verdict["verdict"]) => verdicts.filter((other) => other.verdict === verdict).length
  return { ok: of("ok"), missed: of("missed"), skipped: of("skipped") }
}

/** Styles text for a terminal, or returns it as it is. */
export type Paint = (style: "bold" | "dim" | "green" | "red" | "yellow", text: string) => string

const marks = { ok: ["green", "ok    "], missed: ["red", "MISSED"], skipped: ["yellow", "skip  "] } as const

/** Grouped by area, with the reason below each missed or skipped rule. */
export const scoreCard = (verdicts: ReadonlyArray<Verdict>, seconds: number, paint: Paint): string => {
  const lines: Array<string> = []
  for (const area of areas) {
    const found = verdicts.filter((verdict) => verdict.area === area)
    if (found.length === 0) continue
    lines.push("", paint("bold", `${area}  ${found.filter(({ verdict }) => verdict === "ok").length}/${found.length}`))
    for (const { detail, id, rule, source, verdict } of found) {
      const [style, mark] = marks[verdict]
      lines.push(
        `  ${paint(style, mark)}  ${id.slice(area.length + 1).padEnd(24)}  ${rule} ${paint("dim", `(${source})`)}`
      )
      if (detail !== null) lines.push(`          ${paint(verdict === "missed" ? "red" : "dim", detail)}`)
    }
  }
  const { missed, ok, skipped } = totals(verdicts)
  return [
    ...lines,
    "",
    paint(
      "bold",
      `${verdicts.length} rules: ${ok} ok, ${missed} missed, ${skipped} skipped, in ${seconds.toFixed(1)} s`
    )
  ].join("\n")
}
