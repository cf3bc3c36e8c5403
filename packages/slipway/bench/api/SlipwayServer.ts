/** Ours, without a worker: only HTTP and storage are measured. */
import * as RootSpan from "@slipway/domain/RootSpan"
import { SandboxStore } from "@slipway/domain/sandbox/SandboxStore"
import { SandboxId } from "@slipway/domain/SandboxId"
import { ConfigProvider, DateTime, Duration, Effect, ManagedRuntime, Redacted, Result } from "effect"
import { reserve } from "../../src/commands/Serve.ts"
import * as Service from "../../src/service/Service.ts"
import * as Settings from "../../src/settings/Settings.ts"
import * as Protocol from "./Protocol.ts"

const { collector, databaseUrl, dataDir, hasSpans, publicUrl, requestsPerMinute, requestsPerTenant } = Protocol.options<
  Protocol.ServerOptions
>()
if (hasSpans === (RootSpan.annotate({}) === Effect.void)) throw new Error("not the spans that were asked for")

const host = "127.0.0.1"
const port = await Effect.runPromise(reserve({ host, port: 0 }))
const defaults = await Effect.runPromise(Effect.provide(Settings.load, ConfigProvider.layer(ConfigProvider.fromUnknown({}))))
const runtime = ManagedRuntime.make(Service.layer({
  ...defaults,
  host,
  port,
  publicUrl,
  dataDir,
  databaseUrl: Redacted.make(databaseUrl),
  startup: Duration.zero,
  secretsKeyFile: `${dataDir}/secrets.key`,
  role: "http",
  rateLimitPerMinute: requestsPerMinute,
  traces: collector === null ? null : {
    url: collector,
    headers: new Map(),
    serviceName: "bench",
    sampler: { name: "parentbased_always_on", ratio: 1 }
  },
  // The streams are all of one user.
  edge: {
    ...defaults.edge,
    requestsPerUser: requestsPerTenant,
    requestsPerGrant: requestsPerTenant,
    streamsPerUser: 10_000,
    streamsPerGrant: 10_000
  }
}, publicUrl))

const commit = Effect.fnUntraced(function*(sandboxId: string) {
  const store = yield* SandboxStore
  const usage = { llmRequestCount: 1, costMicroUsd: 1, creditsChargedMicros: 0 }
  const { sandbox } = yield* store.change(
    SandboxId.make(sandboxId),
    "policy",
    () => Result.succeed([{ type: "usage.updated" as const, data: { usage } }]),
    yield* DateTime.now
  )
  return { seq: sandbox.lastSeq, at: Protocol.now() } satisfies Protocol.Committed
})

await runtime.context()
Protocol.answer(async (ask) => {
  switch (ask._tag) {
    case "Cpu":
      return Protocol.cpu()
    case "Commit":
      return await runtime.runPromise(commit(ask.sandboxId))
    default:
      throw new Error(`a server cannot ${ask._tag}`)
  }
})
Protocol.ready(port)
