/** The services that a worker needs to publish, on real technology; used by a process that is killed and by its successor. */
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import type { Lease } from "@slipway/domain/sandbox/ports/Leases"
import { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { publicationOf } from "@slipway/domain/sandbox/rules/Sandbox"
import { isUnderWay } from "@slipway/domain/source/rules/PullState"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import * as SourceHostForgejo from "@slipway/forgejo/SourceHostForgejo"
import * as WorkingTreesGit from "@slipway/git/working-trees/WorkingTreesGit"
import * as SourceHostGitHub from "@slipway/github/SourceHostGitHub"
import type * as GitLabApi from "@slipway/gitlab/GitLabApi"
import * as SourceHostGitLab from "@slipway/gitlab/SourceHostGitLab"
import { LocalRepositories } from "@slipway/local-source/LocalRepositories"
import * as SourceHostLocal from "@slipway/local-source/SourceHostLocal"
import { workspacesIn } from "@slipway/machine/files/TreesLayout"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import * as SandboxHostNone from "@slipway/machine/none/SandboxHostNone"
import * as Database from "@slipway/postgres/Database"
import * as HintsPostgres from "@slipway/postgres/HintsPostgres"
import * as LeasesPostgres from "@slipway/postgres/leases/LeasesPostgres"
import * as SandboxStorePostgres from "@slipway/postgres/sandbox-store/SandboxStorePostgres"
import { AnswerMillis } from "@slipway/postgres/sql/SqlFailure"
import { Effect, Layer, Redacted } from "effect"
import { join } from "node:path"
import * as AgentHistory from "../../src/publish/AgentHistory.ts"
import { publishChanges } from "../../src/publish/PublishChanges.ts"

export const REPO = RepoName.make("Acme/App")

/** As JSON: the App's key, or the token, goes by `PRIVATE_KEY` in the environment. */
export interface Settings {
  readonly database: string
  /** Holds trees and boxes. */
  readonly directory: string
  readonly host:
    | { readonly kind: "github"; readonly appId: string; readonly apiUrl: string }
    | { readonly kind: "forgejo"; readonly url: string }
    | { readonly kind: "gitlab"; readonly url: string }
    | { readonly kind: "local" }
}

export const treesLayer = ({ directory }: Pick<Settings, "directory">) => WorkingTreesGit.layer({ directory: join(directory, "trees") })
export const boxesLayer = ({ directory }: Pick<Settings, "directory">) =>
  SandboxHostNone.layer({ directory: join(directory, "boxes"), workspaceOf: workspacesIn(join(directory, "trees")) })
/** The host of repositories of this machine, and these repositories. */
export const localLayer = SourceHostLocal.layer({ publicUrl: "http://localhost:8080" }).pipe(Layer.provideMerge(LocalRepositories.layer))
export const gitLabOptions = (url: string, token: string): GitLabApi.Options => ({ url, token: () => Effect.succeed(Redacted.make(token)) })
export const hostLayer = ({ host }: Pick<Settings, "host">, privateKey: string) =>
  host.kind === "github"
    ? SourceHostGitHub.layer({ appId: host.appId, apiUrl: host.apiUrl, privateKey: Redacted.make(privateKey) })
    : host.kind === "forgejo"
    ? SourceHostForgejo.layer({ url: host.url, token: () => Effect.succeed(Redacted.make(privateKey)) })
    : host.kind === "gitlab"
    ? SourceHostGitLab.layer(gitLabOptions(host.url, privateKey))
    : localLayer

/** The store, and the database below it. */
export const storeLayer = ({ database }: Pick<Settings, "database">) =>
  Layer.merge(SandboxStorePostgres.layer, LeasesPostgres.layer).pipe(
    Layer.provide(IdsNode.layer),
    Layer.provideMerge(HintsPostgres.layer),
    Layer.provideMerge(Database.layer({ url: Redacted.make(database) })),
    // A busy machine is no silent database.
    Layer.provideMerge(Layer.succeed(AnswerMillis, 300_000))
  )

/** Trees, and the boxes in which git looks over them. */
export const machineLayer = (settings: Pick<Settings, "directory">, boxes: Layer.Layer<SandboxHost, unknown> = boxesLayer(settings)) =>
  treesLayer(settings).pipe(Layer.provideMerge(boxes))

/** The work of a session for a repository once it holds the lease: nothing if no publication is requested any more. */
export const publishOnce = Effect.fnUntraced(function*(lease: Lease, grantId: string) {
  const store = yield* SandboxStore
  const trees = yield* WorkingTrees
  const id = lease.sandboxId
  const box = yield* SandboxHost.use((host) => host.provision(lease))
  const sandbox = yield* store.find({ grantId, id })
  if (!isUnderWay(publicationOf(sandbox, REPO))) return sandbox
  return yield* publishChanges(lease, sandbox, REPO, AgentHistory.read(box, trees.folder(REPO, [REPO])))
})
