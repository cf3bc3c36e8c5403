/** The whole service in this process: Postgres, git, the real worker and the offline agent, on a port of its own. */
import * as AgentRuntimeProfiles from "@slipway/agents/profiles/AgentRuntimeProfiles"
import { Session } from "@slipway/conformance/world/World"
import type { Scope } from "@slipway/domain/access/schema/Principal"
import { Access } from "@slipway/domain/access/usecases/Access"
import { CiTrusts } from "@slipway/domain/access/usecases/CiTrusts"
import { DeviceLogins } from "@slipway/domain/access/usecases/DeviceLogins"
import { Members } from "@slipway/domain/access/usecases/Members"
import { Sessions } from "@slipway/domain/access/usecases/Sessions"
import { Automations } from "@slipway/domain/automation/usecases/Automations"
import { Secrets } from "@slipway/domain/environment/usecases/Secrets"
import { RemoteTrees, LocalTrees } from "@slipway/domain/files/ports/RemoteTrees"
import { Artifacts } from "@slipway/domain/files/usecases/Artifacts"
import { Files } from "@slipway/domain/files/usecases/Files"
import { Uploads } from "@slipway/domain/files/usecases/Uploads"
import { McpConnections } from "@slipway/domain/mcp/usecases/McpConnections"
import { McpServers } from "@slipway/domain/mcp/usecases/McpServers"
import { ModelProviders } from "@slipway/domain/models/usecases/ModelProviders"
import { PartnerStore } from "@slipway/domain/partner/ports/PartnerStore"
import type { PartnerFact } from "@slipway/domain/partner/schema/PartnerEvent"
import { Partners } from "@slipway/domain/partner/usecases/Partners"
import { Webhooks } from "@slipway/domain/partner/usecases/Webhooks"
import { Feedback } from "@slipway/domain/publishing/usecases/Feedback"
import { HandleNews } from "@slipway/domain/publishing/usecases/HandleNews"
import { Publishing } from "@slipway/domain/publishing/usecases/Publishing"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { SandboxEvents } from "@slipway/domain/sandbox/usecases/SandboxEvents"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import * as WorkingTreesGit from "@slipway/git/working-trees/WorkingTreesGit"
import * as Server from "@slipway/http/Server"
import { Settings } from "@slipway/http/server/Settings"
import { LocalPullRequests } from "@slipway/local-source/LocalPullRequests"
import { LocalRepositories } from "@slipway/local-source/LocalRepositories"
import * as PullRequestFeedbackLocal from "@slipway/local-source/PullRequestFeedbackLocal"
import * as SourceHostLocal from "@slipway/local-source/SourceHostLocal"
import { workspacesIn } from "@slipway/machine/files/TreesLayout"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import * as SandboxHostNone from "@slipway/machine/none/SandboxHostNone"
import * as WebhookSenderHttp from "@slipway/machine/webhooks/WebhookSenderHttp"
import * as WebhookSignaturesNode from "@slipway/machine/webhooks/WebhookSignaturesNode"
import { pages } from "@slipway/pages/Pages"
import * as AccessStorePostgres from "@slipway/postgres/access-store/AccessStorePostgres"
import * as ArtifactStorePostgres from "@slipway/postgres/artifact-store/ArtifactStorePostgres"
import * as AutomationStorePostgres from "@slipway/postgres/automation-store/AutomationStorePostgres"
import * as BlobsPostgres from "@slipway/postgres/blobs/BlobsPostgres"
import * as CheckpointsPostgres from "@slipway/postgres/checkpoints/CheckpointsPostgres"
import * as CiTrustStorePostgres from "@slipway/postgres/ci-trust-store/CiTrustStorePostgres"
import * as DeviceLoginStorePostgres from "@slipway/postgres/device-login-store/DeviceLoginStorePostgres"
import * as FeedbackWatchesPostgres from "@slipway/postgres/feedback-watches/FeedbackWatchesPostgres"
import * as HintsPostgres from "@slipway/postgres/HintsPostgres"
import * as LeasesPostgres from "@slipway/postgres/leases/LeasesPostgres"
import * as MaintenancePostgres from "@slipway/postgres/maintenance/MaintenancePostgres"
import * as McpServerStorePostgres from "@slipway/postgres/mcp-server-store/McpServerStorePostgres"
import * as Migrations from "@slipway/postgres/Migrations"
import * as ModelProviderStorePostgres from "@slipway/postgres/model-provider-store/ModelProviderStorePostgres"
import * as PartnerStorePostgres from "@slipway/postgres/partner-store/PartnerStorePostgres"
import * as PromptFilesPostgres from "@slipway/postgres/prompt-files/PromptFilesPostgres"
import * as RepositorySettingsPostgres from "@slipway/postgres/repository-settings/RepositorySettingsPostgres"
import * as SandboxDashboardPostgres from "@slipway/postgres/sandbox-dashboard/SandboxDashboardPostgres"
import * as SandboxStorePostgres from "@slipway/postgres/sandbox-store/SandboxStorePostgres"
import { SecretsKey } from "@slipway/postgres/secret-store/SecretsKey"
import * as SecretStorePostgres from "@slipway/postgres/secret-store/SecretStorePostgres"
import * as SessionStorePostgres from "@slipway/postgres/session-store/SessionStorePostgres"
import * as SetupsPostgres from "@slipway/postgres/setups/SetupsPostgres"
import * as WebhookStorePostgres from "@slipway/postgres/webhook-store/WebhookStorePostgres"
import * as WorkersPostgres from "@slipway/postgres/workers/WorkersPostgres"
import * as CheckpointTreesOnDisk from "@slipway/worker/checkpoint/CheckpointTreesOnDisk"
import * as FollowFeedback from "@slipway/worker/jobs/FollowFeedback"
import * as WorkerNode from "@slipway/worker/WorkerNode"
import { Context, DateTime, Duration, Effect, Layer, Redacted } from "effect"
import { HttpServer } from "effect/http"
import { execFileSync } from "node:child_process"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

const PUBLIC_URL = "https://slipway.test"
const REPOS = ["acme/shop", "acme/docs"] as const

const makeRepository = (path: string) => {
  const git = (...args: ReadonlyArray<string>) => execFileSync("git", ["-C", path, ...args], { stdio: "pipe" })
  mkdirSync(path)
  git("init", "--quiet", "--initial-branch=main")
  writeFileSync(join(path, "README.md"), "# Shop\n")
  git("add", ".")
  git("-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "--quiet", "-m", "First")
  return path
}

const directory = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "slipway-conformance-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)

const service = Layer.unwrap(Effect.map(directory, (path) => {
  const stores = Layer.mergeAll(
    SandboxStorePostgres.layer,
    LeasesPostgres.layer,
    MaintenancePostgres.layer,
    SandboxDashboardPostgres.layer,
    SetupsPostgres.layer,
    Layer.mergeAll(
      WorkersPostgres.layer,
      FeedbackWatchesPostgres.layer,
      BlobsPostgres.layer,
      ArtifactStorePostgres.layer,
      PromptFilesPostgres.layer
    ),
    CheckpointsPostgres.layer,
    AccessStorePostgres.layer,
    Layer.merge(DeviceLoginStorePostgres.layer, CiTrustStorePostgres.layer),
    SessionStorePostgres.layer,
    PartnerStorePostgres.layer,
    Layer.mergeAll(
      WebhookStorePostgres.layer,
      AutomationStorePostgres.layer,
      SecretStorePostgres.layer,
      ModelProviderStorePostgres.layer,
      RepositorySettingsPostgres.layer,
      McpServerStorePostgres.layer
    ).pipe(
      Layer.provide(SecretsKey.layerEphemeral)
    ),
    WebhookSenderHttp.layer({ allowPrivate: false }),
    WebhookSignaturesNode.layer,
    LocalRepositories.layer
  ).pipe(
    Layer.provideMerge(Layer.mergeAll(HintsPostgres.layer, IdsNode.layer)),
    Layer.provideMerge(TestPostgres.layer(Migrations.layer))
  )
  const machine = Layer.mergeAll(
    WorkingTreesGit.layer({ directory: join(path, "trees") }).pipe(
      Layer.provideMerge(SandboxHostNone.layer({ directory: join(path, "boxes"), workspaceOf: workspacesIn(join(path, "trees")) }))
    ),
    AgentRuntimeProfiles.layer(),
    Layer.merge(PullRequestFeedbackLocal.layer, LocalPullRequests.layerPages).pipe(
      Layer.provideMerge(SourceHostLocal.layer({ publicUrl: PUBLIC_URL }))
    )
  )
  const repositories = Layer.effectDiscard(Effect.gen(function*() {
    const local = yield* LocalRepositories
    for (const repo of REPOS) yield* local.register(repo, makeRepository(join(path, repo.replace("/", "-"))))
  }))
  const domain = Layer.mergeAll(
    Automations.layer.pipe(Layer.provideMerge(Sandboxes.layer)),
    SandboxEvents.layer,
    Files.layerReaching.pipe(
      Layer.provide(RemoteTrees.layerLocal),
      Layer.provide(LocalTrees.layer),
      Layer.provide(CheckpointTreesOnDisk.layer)
    ),
    HandleNews.layer.pipe(Layer.provideMerge(Layer.merge(Publishing.layer, Feedback.layer))),
    Uploads.layer,
    Artifacts.layer,
    Partners.layer,
    Webhooks.layer,
    Secrets.layer,
    McpServers.layer,
    McpConnections.layer,
    ModelProviders.layer,
    Access.layer,
    Layer.merge(DeviceLogins.layer, CiTrusts.layer),
    Members.layer,
    Sessions.layer
  )
  const server = Server.layer({ host: "127.0.0.1", port: 0 }, pages).pipe(Layer.provide(Settings.layer({
    publicUrl: PUBLIC_URL,
    cursorKey: Redacted.make("test cursor key"),
    requestsPerMinute: 100_000,
    refusedKeysPerMinute: 100_000,
    heartbeat: Duration.millis(200)
  })))
  return server.pipe(
    Layer.provideMerge(FollowFeedback.layer),
    Layer.provideMerge(WorkerNode.layer({ worker: "worker-1", machine: "machine-1", slots: 32, agents: 128, boots: 32 })),
    Layer.provideMerge(repositories),
    Layer.provideMerge(domain),
    Layer.provideMerge(machine),
    Layer.provideMerge(stores)
  )
}))

/** More than a page; first one of each type. */
const facts = (): ReadonlyArray<PartnerFact> => {
  const at = DateTime.makeUnsafe("2026-11-21T02:41:00.120Z")
  const lead = { claimId: "0197f1a0-0000-7000-8000-000000000001", leadId: "lead-1", variant: "b" }
  const attributed = { ...lead, occurredAt: at }
  const derived = "6ba7b810-9dad-51d1-80b4-00c04fd430c8"
  const task = (n: number) => `c_${String(n).padStart(12, "a").replaceAll("0", "z").replaceAll("1", "y")}`
  const started = (n: number): PartnerFact => ({
    type: "task.started",
    data: { ...attributed, taskId: task(n), projectId: n === 0 ? "project-1" : null }
  })
  return [
    {
      type: "credit_claim.created",
      data: { ...lead, creditAmount: 5, createdAt: at, status: "pending", claimedAt: null }
    },
    { type: "credit_claim.claimed", data: { ...lead, creditAmount: 5, createdAt: at, status: "claimed", claimedAt: at } },
    { type: "project.connected", data: { ...attributed, projectId: "project-1" } },
    started(0),
    {
      type: "pull_request.opened",
      data: { ...attributed, pullRequestId: derived, taskId: task(0), projectId: null }
    },
    { type: "conversion.paid", data: { ...attributed, conversionId: derived } },
    ...Array.from({ length: 97 }, (_, i) => started(i + 1))
  ]
}

const mint = Effect.fnUntraced(function*(grant: string, scopes: ReadonlyArray<Scope>) {
  const made = yield* (yield* Access).createKey({ grant, label: "conformance", scopes, kind: "live" })
  return { key: Redacted.value(made.key), grantId: made.grant.id }
})

/** A session of the suite with that server, ended before the server is. The feed of the other grant is empty. */
export class RealServer extends Context.Service<RealServer, Session>()("slipway/test/RealServer") {
  static readonly layer = Layer.effect(
    RealServer,
    Effect.gen(function*() {
      const { address } = yield* HttpServer.HttpServer
      if (!("port" in address)) return yield* Effect.die("no port")
      const { grantId, key } = yield* mint("acme", ["sandboxes", "automations"])
      const tell = facts().map((fact) => ({ grantId, fact }))
      yield* (yield* PartnerStore).record(Effect.succeed({ result: undefined, tell }), yield* DateTime.now)
      const options = {
        url: `http://127.0.0.1:${address.port}`,
        key,
        otherKey: (yield* mint("other", ["sandboxes", "automations"])).key,
        noScopeKey: (yield* mint("acme", [])).key,
        repos: REPOS,
        slow: true,
        heartbeatMillis: 1_000,
        onWait: () => {}
      }
      return yield* Effect.acquireRelease(
        Effect.sync(() => new Session(options)),
        (session) => Effect.promise(() => session.end())
      )
    })
  ).pipe(Layer.provide(service))
}
