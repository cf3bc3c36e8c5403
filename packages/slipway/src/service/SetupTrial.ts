/**
 * Runs the setup of a local repository in a box, with everything but its files in memory. All its data is deleted afterwards.
 */
import { SecretStore } from "@slipway/domain/environment/ports/SecretStore"
import * as OutputRedactor from "@slipway/domain/environment/redaction/OutputRedactor"
import type { SecretName } from "@slipway/domain/environment/rules/Environment"
import * as SecretStoreMemory from "@slipway/domain/memory/environment/SecretStoreMemory"
import * as SandboxStoreMemory from "@slipway/domain/memory/sandbox/SandboxStoreMemory"
import * as HintsMemory from "@slipway/domain/memory/store/HintsMemory"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import * as Snapshot from "@slipway/local-source/Snapshot"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import { AllowedEgress } from "@slipway/worker/setup/RunSetup"
import * as SetupTrial from "@slipway/worker/setup/SetupTrial"
import { DateTime, Effect, Layer, type Redacted, Schema } from "effect"
import path from "node:path"
import { settings as isolationSettings } from "../settings/Isolation.ts"
import * as Settings from "../settings/Settings.ts"
import * as Isolation from "./machine/Isolation.ts"
import * as Toolchains from "./machine/Toolchains.ts"
import * as Service from "./Service.ts"
import * as TemporaryFolder from "./storage/TemporaryFolder.ts"

/** This machine cannot make an isolated box. Nothing was run. */
class NoBox extends Schema.TaggedError<NoBox>()("NoBox", { problem: Schema.String }) {
  override get message() {
    return `There is no box for the setup, so nothing was run. ${this.problem} ` +
      `${isolationSettings.isolation.name}=none runs it as this user, without isolation.`
  }
}

const GRANT = "local"

/** Its folder in the box has the name of the local folder. */
const repoOf = (folder: string): RepoName => {
  const name = `${GRANT}/${path.basename(folder).replace(/\.git$/u, "").replaceAll(/[^\w.-]/gu, "-")}`
  return Schema.is(RepoName)(name) ? name : `${GRANT}/repository`
}

interface Options {
  /** An absolute path. */
  readonly folder: string
  readonly which: "commit" | "working"
  readonly secrets: ReadonlyMap<SecretName, Redacted.Redacted>
  /** Runs when the box can be made. `kind`: its isolation. */
  readonly began: (kind: Isolation.Isolation["kind"]) => Effect.Effect<void>
  /** Gets the commands' output as it is written, without secrets. */
  readonly output: (text: string) => void
}

/** `null`: the repository has no environment file. */
export const run = Effect.fn("SetupTrial.run")(
  function*({ began, folder, output, secrets, which }: Options) {
    const given = yield* Settings.load
    yield* Toolchains.check(given)
    const temporary = yield* TemporaryFolder.make("env-run")
    const settings = { ...given, role: "all" as const, dataDir: path.join(temporary, "data") }
    const isolation = yield* Isolation.choose(settings)
    if (isolation.problem !== null) return yield* new NoBox({ problem: isolation.problem })
    yield* isolation.folders.letGo
    yield* Settings.hideSecrets

    const source = path.join(temporary, "source.git")
    const { branch } = yield* Snapshot.make(folder, which, source)
    const repo = repoOf(folder)
    const trial = Effect.gen(function*() {
      const store = yield* SecretStore
      const at = yield* DateTime.now
      for (const [name, value] of secrets) yield* store.set({ grantId: GRANT, repo, name }, value, at)
      yield* began(isolation.kind)
      return yield* SetupTrial.run({ grantId: GRANT, repo, branch, remote: { url: source, authorization: null }, output })
    })
    return yield* trial.pipe(
      Effect.provideService(AllowedEgress, settings.egressAllow),
      Effect.provide(
        Layer.mergeAll(
          Service.trees(settings, isolation),
          isolation.host,
          SandboxStoreMemory.layer,
          SecretStoreMemory.layer,
          OutputRedactor.layer
        ).pipe(Layer.provideMerge(Layer.merge(HintsMemory.layer, IdsNode.layer)))
      )
    )
  },
  Effect.scoped
)
