/** Ours, without a worker: only HTTP and storage are measured. */
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import * as RootSpan from "@slipway/domain/observability/RootSpan"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { partId, type SandboxEvent } from "@slipway/domain/sandbox/rules/SandboxEvent"
import { ConfigProvider, DateTime, Duration, Effect, ManagedRuntime, Redacted, Result } from "effect"
import { reserve } from "../../packages/slipway/src/commands/service/Serve.ts"
import * as Service from "../../packages/slipway/src/service/Service.ts"
import * as Settings from "../../packages/slipway/src/settings/Settings.ts"
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

const message = `${Protocol.TURN}-message`
const said: SandboxEvent = {
  type: "message.updated",
  turn_id: Protocol.TURN,
  data: { part_id: partId.text(message), message_id: message, kind: "text", text: Protocol.SAID }
}
const turn: ReadonlyArray<SandboxEvent> = [
  {
    type: "turn.updated",
    turn_id: Protocol.TURN,
    data: { state: "pending", previous: null, text: Protocol.PROMPT, author: { id: "bench" } }
  },
  {
    type: "turn.started",
    turn_id: Protocol.TURN,
    data: { prompt_id: Protocol.TURN, text: Protocol.PROMPT, files: [], author: { id: "bench" } }
  }
]

/** Without events it begins the turn that they are of. */
const append = Effect.fnUntraced(function*(sandboxId: string, commits: number, perCommit: number) {
  const store = yield* SandboxStore
  const events = perCommit === 0 ? turn : Array.from({ length: perCommit }, () => said)
  const began = Protocol.now()
  let seq = 0
  for (let i = 0; i < commits; i++) {
    const { sandbox } = yield* store.change(SandboxId.make(sandboxId), "policy", () => Result.succeed(events), yield* DateTime.now)
    seq = sandbox.lastSeq
  }
  return { began, at: Protocol.now(), seq } satisfies Protocol.Appended
})

await runtime.context()
Protocol.answer(async (ask) => {
  switch (ask._tag) {
    case "Cpu":
      return Protocol.cpu()
    case "Memory":
      return await Protocol.memory()
    case "Append":
      return await runtime.runPromise(append(ask.sandboxId, ask.commits, ask.perCommit))
    default:
      throw new Error(`a server cannot ${ask._tag}`)
  }
})
Protocol.ready(port)
