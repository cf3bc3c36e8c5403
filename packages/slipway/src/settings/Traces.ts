/** The collector of traces, by the standard variables of OpenTelemetry. */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { SAMPLERS } from "../traces/Sampler.ts"
import type { Options } from "../traces/TracesOtlp.ts"
import * as Setting from "./Setting.ts"
import * as Type from "./Type.ts"

/** Parses `name=value` pairs with commas, percent-encoded. `null`: invalid. */
const headersOf = (text: string): ReadonlyMap<string, Redacted.Redacted> | null => {
  const headers = new Map<string, Redacted.Redacted>()
  for (const pair of text.split(",").map((pair) => pair.trim()).filter((pair) => pair !== "")) {
    const [, name, encoded] = /^([!#$%&'*+.^_`|~\w-]+)\s*=(.*)$/u.exec(pair) ?? []
    if (name === undefined || encoded === undefined) return null
    try {
      const value = decodeURIComponent(encoded.trim())
      if (!/^[\t\x20-\x7e]*$/u.test(value)) return null
      headers.set(name.toLowerCase(), Redacted.make(value))
    } catch {
      return null
    }
  }
  return headers
}

export const settings = {
  endpoint: Setting.optional({
    name: "OTEL_EXPORTER_OTLP_ENDPOINT",
    type: Type.webAddress,
    about: "Collector of traces by OTLP over HTTP, such as http://127.0.0.1:4318; spans go to its /v1/traces. Without it, no spans.",
    role: "all"
  }),
  headers: Setting.optional({
    name: "OTEL_EXPORTER_OTLP_HEADERS",
    type: Type.redacted(Type.parsed("name=value between commas, percent-encoded", (value) => headersOf(value) !== null)),
    about: "Headers of requests to the collector, such as its key, as name=value between commas.",
    role: "all",
    secret: true
  }),
  serviceName: Setting.withDefault({
    name: "OTEL_SERVICE_NAME",
    type: Type.text("a name"),
    default: "slipway",
    about: "Name of this process in traces.",
    role: "all"
  }),
  sampler: Setting.withDefault({
    name: "OTEL_TRACES_SAMPLER",
    type: Type.oneOf(SAMPLERS),
    default: "parentbased_always_on",
    about: `Which traces are collected: ${SAMPLERS.join(", ")}. parentbased: a caller's traceparent decides first.`,
    role: "all"
  }),
  samplerArg: Setting.withDefault({
    name: "OTEL_TRACES_SAMPLER_ARG",
    type: Type.pattern("a number from 0 to 1", /^(?:0(?:\.\d{1,9})?|1(?:\.0{1,9})?|\.\d{1,9})$/u),
    default: "1",
    about: "Share of traces that a sampler by ratio collects, from 0 to 1.",
    role: "all"
  })
}

/** `null`: no traces are collected. */
export const load: Effect.Effect<Omit<Options, "serviceVersion"> | null, Setting.InvalidSetting> = Effect.map(
  Setting.values(settings),
  ({ endpoint, headers, sampler, samplerArg, serviceName }) =>
    endpoint === null ? null : {
      url: `${endpoint.replace(/(?<!\/)\/+$/u, "")}/v1/traces`,
      headers: headersOf(headers === null ? "" : Redacted.value(headers)) ?? new Map<string, Redacted.Redacted>(),
      serviceName,
      sampler: { name: sampler, ratio: Number(samplerArg) }
    }
)
