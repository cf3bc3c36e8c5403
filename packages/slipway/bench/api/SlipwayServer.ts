/** Ours, without a worker: only HTTP and storage are measured. */
import { SandboxStore } from "@slipway/domain/sandbox/SandboxStore"
import { SandboxId } from "@slipway/domain/SandboxId"
import { DateTime, Duration, Effect, ManagedRuntime, Redacted, Result } from "effect"
import { reserve } from "../../src/commands/Serve.ts"
import * as Service from "../../src/service/Service.ts"
import * as Protocol from "./Protocol.ts"

const { databaseUrl, dataDir, publicUrl, requestsPerMinute, requestsPerTenant } = Protocol.options<Protocol.ServerOptions>()

const host = "127.0.0.1"
const port = await Effect.runPromise(reserve({ host, port: 0 }))
const runtime = ManagedRuntime.make(Service.layer({
  host,
  port,
  publicUrl,
  dataDir,
  dataDirIsSet: true,
  databaseUrl: Redacted.make(databaseUrl),
  startup: Duration.zero,
  secretsKeyFile: `${dataDir}/secrets.key`,
  postgresAccount: null,
  role: "http",
  rateLimitPerMinute: requestsPerMinute,
  keysPerUser: 100,
  // The streams are all of one user.
  edge: { requestsPerUser: requestsPerTenant, requestsPerGrant: requestsPerTenant, streamsPerUser: 10_000, streamsPerGrant: 10_000 },
  workerSlots: 1,
  maxActiveSandboxes: null,
  modelsFile: null,
  github: null,
  signIn: null,
  commit: { author: { name: "Slipway", email: "slipway@localhost" }, message: "{title}" },
  isolation: "auto",
  dockerImage: "",
  dockerSocket: "",
  egressAllow: new Set(),
  clone: { depth: null, minutes: 9, bytes: 2 ** 33, unusedDays: null, checkoutBytes: 2 ** 33, checkoutFiles: 500_000 },
  limits: { memoryBytes: 2 ** 32, processes: 1024, cpus: 2, diskBytes: 2 ** 33 },
  sandboxBudget: null,
  grantBudget: null,
  creditPrice: null,
  approvalMinutes: 30,
  webhookPrivate: false,
  agentIdleMinutes: 5,
  toolDetail: "full"
}, publicUrl))

const commit = Effect.fnUntraced(function*(sandboxId: string) {
  const store = yield* SandboxStore
  const usage = { llmRequestCount: 1, costMicroUsd: 1, creditsChargedMicros: 0 }
  const sandbox = yield* store.change(
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
