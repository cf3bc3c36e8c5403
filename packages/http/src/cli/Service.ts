/** The whole service as one layer: storage, domain, worker, HTTP. */
// First: schemas that were used before would stay interpreted. Compiled ones take a fifth off a GET (bench api, 2026-11-21).
import "effect/schema/SchemaJITCompiler/enable"
import { randomUUID } from "node:crypto"
import path from "node:path"
import { Effect, Layer, References } from "effect"
import * as AgentRuntimeProfiles from "@slipway/adapters/agents/AgentRuntimeProfiles"
import * as WorkingTreesGit from "@slipway/adapters/git/WorkingTreesGit"
import * as SandboxHostNone from "@slipway/adapters/hosts/none/SandboxHostNone"
import * as SourceHostLocal from "@slipway/adapters/local-source/SourceHostLocal"
import * as SharedSecret from "@slipway/adapters/postgres/SharedSecret"
import { Files } from "@slipway/domain/files/Files"
import { Partners } from "@slipway/domain/partner/Partners"
import { Sandboxes } from "@slipway/domain/sandbox/Sandboxes"
import { SandboxEvents } from "@slipway/domain/sandbox/SandboxEvents"
import { SandboxStore } from "@slipway/domain/sandbox/SandboxStore"
import { Publishing } from "@slipway/domain/source/Publishing"
import * as WorkerNode from "@slipway/worker/WorkerNode"
import * as HttpSettings from "../middleware/Settings.ts"
import * as Server from "../Server.ts"
import * as Machine from "./Machine.ts"
import type { Settings } from "./Settings.ts"
import * as Storage from "./Storage.ts"

const worker = ({ dataDir, workerSlots }: Settings) =>
  Layer.unwrap(Effect.gen(function*() {
    const { alone, machine } = yield* Machine.acquire(dataDir)
    const store = yield* SandboxStore
    if (alone) yield* store.endLeases(machine)
    return WorkerNode.layer({ worker: randomUUID(), machine, slots: workerSlots })
  })).pipe(
    Layer.provide([AgentRuntimeProfiles.layer(), SandboxHostNone.layer({ directory: path.join(dataDir, "boxes") })])
  )

const http = ({ host, port, rateLimitPerMinute }: Settings, publicUrl: string) =>
  Server.layer({ host, port }).pipe(
    Layer.provide(Layer.unwrap(Effect.map(SharedSecret.load("list_cursors"), (cursorKey) =>
      HttpSettings.Settings.layer({ publicUrl, cursorKey, requestsPerMinute: rateLimitPerMinute }))))
  )

/** Runs the service until its scope closes, with what `more` needs of it beside. `port` is the one to listen on, not 0. */
export const layer = (settings: Settings, publicUrl: string) => {
  const { role } = settings
  const domain = Layer.mergeAll(Sandboxes.layer, SandboxEvents.layer, Files.layer, Publishing.layer, Partners.layer).pipe(
    Layer.provideMerge(Layer.mergeAll(
      WorkingTreesGit.layer({ directory: path.join(settings.dataDir, "trees") }),
      SourceHostLocal.layer({ publicUrl })
    ))
  )
  const roles = role === "all"
    // Built in this order and ended in the reverse one: requests end before the work they wait for.
    ? http(settings, publicUrl).pipe(Layer.provideMerge(worker(settings)))
    : role === "http" ? http(settings, publicUrl) : worker(settings)
  return roles.pipe(
    Layer.provideMerge(domain),
    Layer.provideMerge(Storage.layer(settings, true)),
    // Nobody collects spans yet, and each request would make half a dozen.
    Layer.provide(Layer.succeed(References.TracerEnabled, false))
  )
}
