/**
 * The verdict on a measurement: its ratio, whether that reaches its goal, and whether it fell since a ratio was kept. A shared machine has
 * bad moments, so a fall counts only beyond the noise of the kept ratio's samples, which is at least a quarter of it.
 */
import type { Measurement } from "./Measurement.ts"
import { deviation, median } from "./Statistics.ts"

/**
 * The part of a kept ratio by which a new ratio may be lower, however steady its rounds were. Two runs on two busy processors differ as
 * much.
 */
const NOISE_SHARE = 0.25
/** Deviations of the ratios of single rounds. Of a normal distribution, three hold 96 %. */
const NOISE_DEVIATIONS = 3

/** A ratio of an earlier run that later ones are held to. */
export interface Kept {
  readonly ratio: number
  /** A ratio that is lower by more than this fell. */
  readonly noise: number
  /** ISO 8601, UTC. */
  readonly day: string
  readonly machine: string
}

const times = ({ better }: Measurement, ours: number, theirs: number) => better === "higher" ? ours / theirs : theirs / ours

/** The ratio of medians; above 1, ours is the better one. `null`: there is no other side. */
export const ratioOf = (measurement: Measurement): number | null =>
  measurement.theirs === null ? null : times(measurement, median(measurement.ours.samples), median(measurement.theirs.samples))

/** The part of the measurement's ratio that is kept. `null`: it has no ratio. */
export const keptOf = (measurement: Measurement, day: string, machine: string): Kept | null => {
  const { ours, theirs } = measurement
  const ratio = ratioOf(measurement)
  if (ratio === null || theirs === null) return null
  const rounds = ours.samples.slice(0, theirs.samples.length).map((own, i) => times(measurement, own, theirs.samples[i] ?? Number.NaN))
  const rounded = (value: number) => Number(value.toPrecision(3))
  return { ratio: rounded(ratio), noise: rounded(Math.max(NOISE_SHARE * ratio, NOISE_DEVIATIONS * deviation(rounds))), day, machine }
}

export interface Judgement {
  readonly ratio: number | null
  /** Whether all goals are reached. `null`: there is no goal. */
  readonly reached: boolean | null
  /** Why the run fails: one sentence each. */
  readonly failures: ReadonlyArray<string>
}

const figure = (value: number) => value.toPrecision(3)

/** `kept`: what a fall is measured from; none: there is nothing to fall from. A limit of ours alone fails whatever was kept. */
export const judge = (measurement: Measurement, kept: Kept | undefined): Judgement => {
  const { id, ours, reach, unit } = measurement
  const own = median(ours.samples)
  const ratio = ratioOf(measurement)
  const failures: Array<string> = []
  // Samples that are no numbers are neither below nor above anything.
  if (!Number.isFinite(own) || ratio !== null && !Number.isFinite(ratio)) failures.push(`${id}: nothing was measured`)
  if (ratio !== null && kept !== undefined && ratio < kept.ratio - kept.noise) {
    const since = `${figure(kept.ratio)} less a noise of ${figure(kept.noise)} (${kept.day}, ${kept.machine})`
    failures.push(`${id}: the ratio fell to ${figure(ratio)}, below what was kept: ${since}`)
  }
  if (reach.most !== undefined && own > reach.most) failures.push(`${id}: ${figure(own)} ${unit}, at most ${reach.most}`)
  if (reach.least !== undefined && own < reach.least) failures.push(`${id}: ${figure(own)} ${unit}, at least ${reach.least}`)
  const asked = [
    ...reach.times === undefined ? [] : [ratio !== null && ratio >= reach.times],
    ...reach.most === undefined ? [] : [own <= reach.most],
    ...reach.least === undefined ? [] : [own >= reach.least]
  ]
  return { ratio, reached: asked.length === 0 ? null : asked.every(Boolean), failures }
}
