/** The operator's pod template: a `Pod` with the fields that Slipway leaves to the operator, such as its nodes and its runtime class. */
import { NotIsolated } from "@slipway/machine/host/NotIsolated"
import { Effect, Schema } from "effect"
import { yamlOf } from "./OperatorFile.ts"

const Texts = Schema.Record(Schema.String, Schema.String)
const Objects = Schema.Array(Schema.Record(Schema.String, Schema.Unknown))

const METADATA = {
  labels: Schema.optionalKey(Texts),
  annotations: Schema.optionalKey(Texts)
}

const SPEC = {
  affinity: Schema.optionalKey(Schema.Record(Schema.String, Schema.Unknown)),
  imagePullSecrets: Schema.optionalKey(Objects),
  nodeSelector: Schema.optionalKey(Texts),
  priorityClassName: Schema.optionalKey(Schema.String),
  runtimeClassName: Schema.optionalKey(Schema.String),
  schedulerName: Schema.optionalKey(Schema.String),
  tolerations: Schema.optionalKey(Objects),
  topologySpreadConstraints: Schema.optionalKey(Objects)
}

const Manifest = Schema.Struct({
  apiVersion: Schema.optionalKey(Schema.Literal("v1")),
  kind: Schema.optionalKey(Schema.Literal("Pod")),
  metadata: Schema.optionalKey(Schema.Struct(METADATA)),
  spec: Schema.optionalKey(Schema.Struct(SPEC))
})

const decode = Schema.decodeUnknownEffect(Manifest)

export interface PodTemplate {
  readonly labels: Readonly<Record<string, string>>
  readonly annotations: Readonly<Record<string, string>>
  readonly spec: NonNullable<typeof Manifest.Type["spec"]>
}

export const EMPTY: PodTemplate = { labels: {}, annotations: {}, spec: {} }

const keysOf = (value: unknown): ReadonlyArray<string> => typeof value === "object" && value !== null ? Object.keys(value) : []

/** Fields that the template may not have, such as `spec.containers`. */
const refusedIn = (value: unknown): ReadonlyArray<string> => {
  const { metadata, spec }: { metadata?: unknown; spec?: unknown } = typeof value === "object" && value !== null ? value : {}
  return [
    ...keysOf(value).filter((key) => !(key in Manifest.fields)),
    ...keysOf(metadata).filter((key) => !(key in METADATA)).map((key) => `metadata.${key}`),
    ...keysOf(spec).filter((key) => !(key in SPEC)).map((key) => `spec.${key}`)
  ]
}

/** Reads the template from a file of YAML or JSON. */
export const read = Effect.fnUntraced(function*(file: string): Effect.fn.Return<PodTemplate, NotIsolated> {
  const refuse = (missing: string) =>
    new NotIsolated({
      missing: [missing],
      help: `It may have metadata.{${Object.keys(METADATA).join(", ")}} and spec.{${Object.keys(SPEC).join(", ")}}.`
    })
  const value = yield* Effect.tryPromise({
    try: () => yamlOf(file),
    // The parser's messages quote the file.
    catch: () => refuse(`The pod template ${file} cannot be read, or is invalid YAML.`)
  })
  const refused = refusedIn(value)
  if (refused.length > 0) {
    return yield* refuse(`The pod template ${file} has fields that Slipway sets itself or does not allow: ${refused.join(", ")}.`)
  }
  const { metadata: { annotations = {}, labels = {} } = {}, spec = {} } = yield* Effect.mapError(
    decode(value),
    () => refuse(`The pod template ${file} is no Pod of Kubernetes.`)
  )
  return { annotations, labels, spec }
})
