/** Samplers of traces, by the names in the OpenTelemetry specification. */

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
  /** From 0 to 1, for samplers by ratio. */
  readonly ratio: number
}

/** The ratio of new traces that are collected, and whether traces from elsewhere keep their sampling decision. */
export const ratioOf = ({ name, ratio }: Sampler): { readonly ratio: number; readonly isParentBased: boolean } => ({
  ratio: name.endsWith("always_on") ? 1 : name.endsWith("always_off") ? 0 : ratio,
  isParentBased: name.startsWith("parentbased_")
})
