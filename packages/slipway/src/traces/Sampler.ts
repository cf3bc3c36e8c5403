/** Which traces are collected, by the names that the OpenTelemetry specification has for samplers. */

export const SAMPLERS = [
  "always_on",
  "always_off",
  "traceidratio",
  "parentbased_always_on",
  "parentbased_always_off",
  "parentbased_traceidratio"
] as const

export interface Sampler {
  readonly name: typeof SAMPLERS[number]
  /** From 0 to 1: of the samplers by ratio. */
  readonly ratio: number
}

/** The part of new traces that is collected, and whether a trace that began elsewhere goes by what was decided there. */
export const ratioOf = ({ name, ratio }: Sampler): { readonly ratio: number; readonly isParentBased: boolean } => ({
  ratio: name.endsWith("always_on") ? 1 : name.endsWith("always_off") ? 0 : ratio,
  isParentBased: name.startsWith("parentbased_")
})
