/** Sandboxes with something to publish, in a real database and on real disks, and the hosts they publish to. */
import { assert } from "@effect/vitest"
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { offlineDemo } from "@slipway/domain/models/schema/ModelCatalogue"
import { request } from "@slipway/domain/publishing/rules/Publication"
import { Publishing } from "@slipway/domain/publishing/usecases/Publishing"
import { type Leased, Leases } from "@slipway/domain/sandbox/ports/Leases"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { Policy } from "@slipway/domain/sandbox/rules/Policy"
import type { Continues } from "@slipway/domain/sandbox/rules/Sandbox"
import type { SandboxEventOf } from "@slipway/domain/sandbox/rules/SandboxEvent"
import { decide, type SystemCommand } from "@slipway/domain/sandbox/rules/SystemCommand"
import { fromWire } from "@slipway/domain/sandbox/schema/SandboxEvent"
import { SourceHost } from "@slipway/domain/source/ports/SourceHost"
import { newFeedback } from "@slipway/domain/source/rules/FeedbackState"
import { isUnderWay } from "@slipway/domain/source/rules/PullState"
import type { FeedbackState } from "@slipway/domain/source/schema/FeedbackState"
import { headRef } from "@slipway/domain/source/schema/Naming"
import { NO_FEEDBACK } from "@slipway/domain/source/schema/NoFeedback"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import * as ForgejoServer from "@slipway/forgejo/testing/ForgejoServer"
import type * as HostServer from "@slipway/git/testing/HostServer"
import * as GitHubServer from "@slipway/github/testing/GitHubServer"
import * as GitLabServer from "@slipway/gitlab/testing/GitLabServer"
import { isDraft } from "@slipway/gitlab/testing/Project"
import { LocalPullRequests } from "@slipway/local-source/LocalPullRequests"
import { LocalRepositories } from "@slipway/local-source/LocalRepositories"
import * as Migrations from "@slipway/postgres/Migrations"
import { Context, DateTime, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { execFileSync } from "node:child_process"
import { randomUUID } from "node:crypto"
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, realpathSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Finished from "./Finished.ts"
import * as Round from "./Round.ts"
import { hostLayer, localLayer, machineLayer, publishOnce, REPO, type Settings, storeLayer } from "./Worker.ts"

export const temporaryFolder = Effect.acquireRelease(
  Effect.sync(() => realpathSync(mkdtempSync(join(tmpdir(), "slipway-publishing-")))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)

const ENVIRONMENT = {
  PATH: process.env["PATH"],
  HOME: "/nonexistent",
  GIT_CONFIG_GLOBAL: "/dev/null",
  GIT_CONFIG_NOSYSTEM: "1",
  GIT_AUTHOR_NAME: "Agent",
  GIT_AUTHOR_EMAIL: "agent@example.com",
  GIT_COMMITTER_NAME: "Agent",
  GIT_COMMITTER_EMAIL: "agent@example.com"
}
/** Git as anybody runs it. */
export const git = (folder: string, ...args: ReadonlyArray<string>): string =>
  execFileSync("git", ["-C", folder, ...args], { env: ENVIRONMENT, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] }).trim()

const FILES = { "README.md": "# App\n", ".gitignore": "ignored/\n", "old.txt": "old\n" }

export interface Pull {
  readonly headRef: string
  readonly headSha: string
  readonly state: string
  readonly draft: boolean
  readonly number: number
}

/** Where one repository lies, and what only its own side can tell. */
export interface Origin {
  readonly settings: Pick<Settings, "host">
  readonly privateKey: string
  /** The git side. */
  readonly path: string
  readonly pulls: Effect.Effect<ReadonlyArray<Pull>>
  /** A comment of a person who may write. */
  say(number: number, text: string, at: DateTime.Utc): Effect.Effect<void, unknown, SqlClient.SqlClient>
  /** `null` where nothing goes over HTTP. */
  readonly server: Pick<HostServer.HostServer, "strike" | "watch"> | null
}

/** The servers' times have whole seconds. */
const secondOf = (at: DateTime.Utc): string => `${DateTime.formatIso(at).slice(0, 19)}Z`

export const gitHubOrigin = Effect.fnUntraced(function*(files: Readonly<Record<string, string>> = FILES) {
  const server = yield* GitHubServer.start({ readsBeforeMergeable: 0 })
  const installation = server.app.install("Acme")
  const repository = yield* server.repository(REPO, files)
  repository.collaborators.push({ id: 11, login: "maria", permission: "write" })
  return {
    server,
    installation,
    repository,
    path: repository.bare.path,
    privateKey: server.app.privateKey,
    settings: { host: { kind: "github", appId: String(server.app.appId), apiUrl: server.apiUrl } },
    pulls: Effect.sync(() => repository.pulls),
    say: (number, body, at) =>
      Effect.sync(() => {
        const time = secondOf(at)
        Object.assign(repository.comment(number, { user: { id: 11, login: "maria" }, body }), { createdAt: time, updatedAt: time })
      })
  } satisfies Origin & Record<string, unknown>
})

export const gitLabOrigin = Effect.gen(function*() {
  const server = yield* GitLabServer.start()
  const own = { id: 2, username: "deploy" }
  const maria = { id: 11, username: "maria" }
  const project = yield* server.project(REPO, FILES)
  for (const user of [own, maria]) project.members.set(user.id, { user, level: 30, state: "active", expiresAt: null })
  return {
    server,
    path: project.bare.path,
    privateKey: server.token(own),
    settings: { host: { kind: "gitlab", url: server.webUrl } },
    pulls: Effect.sync(() =>
      project.mergeRequests.map((one) => ({
        headRef: one.sourceBranch,
        headSha: one.sha ?? "",
        state: one.state === "opened" ? "open" : one.state,
        draft: isDraft(one),
        number: one.iid
      }))
    ),
    say: (number, body, at) =>
      Effect.sync(() => {
        const time = DateTime.formatIso(at)
        Object.assign(project.note(number, { author: maria, body }), { createdAt: time, updatedAt: time })
      })
  } satisfies Origin
})

export const forgejoOrigin = Effect.gen(function*() {
  const server = yield* ForgejoServer.start()
  const repository = yield* server.repository(REPO, FILES)
  const maria = { id: 11, login: "maria" }
  server.users.push(maria)
  repository.collaborators.push({ ...maria, permission: "write" })
  return {
    server,
    path: repository.bare.path,
    privateKey: server.token,
    settings: { host: { kind: "forgejo", url: server.webUrl } },
    pulls: Effect.sync(() =>
      repository.pulls.map(({ number, pull: { headRef, headSha }, state, title }) => ({
        headRef,
        headSha,
        number,
        state,
        draft: title.startsWith("WIP:")
      }))
    ),
    say: (number, body, at) =>
      Effect.sync(() => {
        const time = secondOf(at)
        Object.assign(repository.entry(number, { user: maria, body }), { createdAt: time, updatedAt: time })
      })
  } satisfies Origin
})

export const localOrigin = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const path = join(yield* temporaryFolder, "app")
  mkdirSync(path)
  git(path, "init", "--quiet", "--initial-branch=trunk")
  for (const [name, content] of Object.entries(FILES)) writeFileSync(join(path, name), content)
  git(path, "add", "--all")
  git(path, "commit", "--quiet", "--message", "First")
  yield* LocalRepositories.use((repositories) => repositories.register(REPO, path)).pipe(
    Effect.provide(LocalRepositories.layer),
    Effect.orDie
  )
  const pulls = sql<Pull>`SELECT number, head_ref AS "headRef", head_sha AS "headSha", state, draft FROM local_pull_requests`
  return {
    server: null,
    path,
    privateKey: "",
    settings: { host: { kind: "local" } },
    pulls: Effect.orDie(pulls),
    say: (number, text, at) =>
      LocalPullRequests.use((pulls) =>
        pulls.review(REPO, number, { key: randomUUID(), author: { id: "user", login: "maria" }, text, comments: [], at })
      ).pipe(Effect.provide(LocalPullRequests.layer.pipe(Layer.provide(localLayer))))
  } satisfies Origin
})

/** A fresh database, with a grant in it. */
export class Database
  extends Context.Service<Database, { readonly url: string; readonly grantId: string }>()("@slipway/worker/test/Database")
{
  static readonly layer = Layer.unwrap(Effect.gen(function*() {
    const url = yield* TestPostgres.database(Migrations.layer)
    const store = storeLayer({ database: url })
    const here = Layer.effect(
      Database,
      Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        const grantId = randomUUID()
        yield* sql`INSERT INTO organizations (id, name) VALUES (${grantId}, 'test')`
        yield* sql`INSERT INTO grants (id, name, organization_id, created_at) VALUES (${grantId}, 'test', ${grantId}, now())`
        return { url, grantId }
      })
    )
    return here.pipe(Layer.provideMerge(store))
  }))
}

const at = DateTime.makeUnsafe("2026-11-22T00:00:00.000Z")

/** A sandbox that runs, leased. */
export const running = Effect.fnUntraced(function*(
  id: SandboxId,
  continues: Continues | null = null,
  feedback: FeedbackState | null = null
) {
  const store = yield* SandboxStore
  const limits = yield* Policy
  const { grantId } = yield* Database
  yield* store.create({
    creation: {
      id,
      grantId,
      createdBy: "user",
      title: "Say hello",
      repos: [{ fullName: REPO, ...(continues === null ? {} : { ref: continues.branch }) }],
      prompt: "prompt",
      model: offlineDemo.id,
      agentRuntime: "opencode",
      reasoningEffort: null,
      toolApprovalMode: "auto",
      metadata: {},
      origin: null,
      continues,
      feedback,
      createdAt: at
    },
    keyed: null
  })
  const leased = yield* take(id)
  const report = (command: SystemCommand) => store.change(id, leased.lease, (sandbox) => decide(sandbox, command, { limits, now: at }), at)
  yield* report({ _tag: "StartBoot" })
  yield* report({ _tag: "FinishBoot", turnId: randomUUID() })
  return leased.lease
})

/** Each sandbox has a machine of its own. */
const take = Effect.fnUntraced(function*(id: SandboxId, machine: string = id) {
  const leased = yield* Leases.use((leases) => leases.take({ worker: randomUUID(), machine }, { slots: 1000, boots: 1000, errands: 1000 }))
  const own = leased.find(({ lease }) => lease.sandboxId === id)
  assert(own !== undefined)
  return own
})

/** As a worker does that starts where another one was killed. */
export const takeOver = (id: SandboxId) => Effect.andThen(Leases.use((leases) => leases.endLeases(id)), take(id))

/** Takes the sandbox like a worker of another machine once that lease has ended, or like a worker started in place of the killed one. */
export const takeElsewhere = Effect.fnUntraced(function*(lease: Leased["lease"]) {
  yield* Leases.use((leases) => leases.release(lease))
  return yield* take(lease.sandboxId, `${lease.sandboxId} elsewhere`)
})

/** Its turn ends and leaves a checkpoint; then nothing is requested until it is over, and its machine is gone. */
export const finish = Effect.fnUntraced(function*(directory: string, { privateKey, settings }: Origin, lease: Leased["lease"]) {
  const store = yield* SandboxStore
  const limits = yield* Policy
  const { grantId } = yield* Database
  const id = lease.sandboxId
  const { turn } = yield* store.find({ grantId, id })
  const turnId = turn?.id ?? ""
  const change = (command: SystemCommand, now = at) => store.change(id, lease, (sandbox) => decide(sandbox, command, { limits, now }), now)
  yield* change({ _tag: "StartTurn", turnId })
  yield* change({ _tag: "EndTurn", turnId, state: "succeeded" })
  yield* Finished.takeCheckpoint(lease, grantId).pipe(Effect.provide(worker({ directory, ...settings }, privateKey)))
  yield* change({ _tag: "Expire" }, DateTime.addDuration(at, limits.idle))
  assert.deepInclude(yield* store.find({ grantId, id }), { status: "succeeded", checkpoint: 1 })
  rmSync(directory, { recursive: true })
})

/** Whether a requested publication is not carried out yet. */
export const isToPublish = Effect.fnUntraced(function*(id: SandboxId) {
  const { grantId } = yield* Database
  return (yield* SandboxStore.use((store) => store.find({ grantId, id }))).publications.some(isUnderWay)
})

export const ask = Effect.fnUntraced(function*(id: SandboxId) {
  const { grantId } = yield* Database
  yield* SandboxStore.use((store) => store.change(id, { grantId }, (sandbox) => request(sandbox, REPO), at))
})

const eventsOf = (id: SandboxId) =>
  Effect.map(SandboxStore.use((store) => store.log(id, 0, 1000)), (entries) => entries.map(({ wire }) => fromWire(wire).event))

export const updates = (id: SandboxId) =>
  Effect.map(
    eventsOf(id),
    (events) => events.filter((event): event is SandboxEventOf<"pull_request.updated"> => event.type === "pull_request.updated")
  )

/** Whether a checkpoint was restored, as its event says. */
export const isRestored = (id: SandboxId) => Effect.map(eventsOf(id), (events) => events.some(({ type }) => type === "sandbox.restored"))

/** The services of a worker that publishes from `settings.directory`. */
export const worker = (settings: Pick<Settings, "directory" | "host">, privateKey: string) =>
  Publishing.layer.pipe(
    Layer.provideMerge(Layer.mergeAll(machineLayer(settings), hostLayer(settings, privateKey)))
  )

/** Carries out what is asked for, as a worker of its own that holds the lease. */
export const carryOut = Effect.fnUntraced(function*(directory: string, { privateKey, settings }: Origin, lease: Leased["lease"]) {
  const { grantId } = yield* Database
  return yield* publishOnce(lease, grantId).pipe(Effect.provide(worker({ directory, ...settings }, privateKey)))
})

/** The sandbox's tree as it was cloned. */
export const clone = Effect.fnUntraced(function*(directory: string, { privateKey, settings }: Origin, id: SandboxId, ref?: string) {
  return yield* Effect.gen(function*() {
    const trees = yield* WorkingTrees
    const host = yield* SourceHost
    const { defaultBranch } = yield* host.repository(REPO)
    yield* trees.prepare({ sandboxId: id, repo: REPO }, {
      remote: yield* host.remote(REPO, "read"),
      ref,
      defaultBranch,
      repos: [REPO]
    })
  }).pipe(Effect.provide(worker({ directory, ...settings }, privateKey)))
})

const sandboxIn = (directory: string, id: SandboxId, ...path: ReadonlyArray<string>) => join(directory, "trees", "sandboxes", id, ...path)
export const treeOf = (directory: string, id: SandboxId) => sandboxIn(directory, id, "workspace", "App")
/** Whether anything of the sandbox is. */
export const isThere = (directory: string, id: SandboxId) => existsSync(sandboxIn(directory, id))
/** Files that exist only while git is at work. */
export const leftOver = (directory: string, id: SandboxId) => readdirSync(sandboxIn(directory, id, "git", "acme+app", "scratch"))
export const packs = (directory: string, id: SandboxId) => {
  const folder = sandboxIn(directory, id, "git", "acme+app", "objects", "pack")
  return existsSync(folder) ? readdirSync(folder).toSorted() : []
}

/** The tree of another sandbox, copied into a directory of its own. */
export const copyTree = (from: string, template: SandboxId, to: string, id: SandboxId): void => {
  mkdirSync(join(to, "trees"))
  cpSync(sandboxIn(from, template), sandboxIn(to, id), { recursive: true, verbatimSymlinks: true })
}

let made = 0
const ALPHABET = "abcdefghijkmnpqrstuvwxyz"
/** An id that none had before in this process. */
export const newId = () => {
  const digits = [...(made++).toString(ALPHABET.length).padStart(12, "0")]
  return SandboxId.make(`c_${digits.map((digit) => ALPHABET[Number.parseInt(digit, ALPHABET.length)]).join("")}`)
}

/** The agent works: a commit of its own, and changes that it did not commit. */
export const work = (tree: string, what: string): void => {
  writeFileSync(join(tree, "committed.txt"), `${what}\n`)
  git(tree, "add", "committed.txt")
  git(tree, "commit", "--quiet", "--message", what)
  writeFileSync(join(tree, "open.txt"), `${what}\n`)
  rmSync(join(tree, "old.txt"), { force: true })
  mkdirSync(join(tree, "ignored"), { recursive: true })
  writeFileSync(join(tree, "ignored", "file"), what)
  writeFileSync(join(tree, ".env.local"), `SECRET=${what}`)
}

/** Makes sandboxes with the same work in them, each in a directory of its own: cloned once, then copied. */
export const sandboxes = Effect.fnUntraced(function*(origin: Origin) {
  const template = newId()
  const from = yield* temporaryFolder
  yield* clone(from, origin, template)
  work(treeOf(from, template), "work")
  const next = Effect.gen(function*() {
    const id = newId()
    const directory = yield* temporaryFolder
    copyTree(from, template, directory, id)
    return { directory, id, lease: yield* running(id) }
  })
  return { next }
})

/** That `what` was published once, and by one pull request. */
export const assertPublished = Effect.fnUntraced(function*(origin: Origin, id: SandboxId, what: string) {
  const { grantId } = yield* Database
  const branch = headRef(id)
  const pulls = (yield* origin.pulls).filter((pull) => pull.headRef === branch)
  const [pull, ...others] = pulls
  assert(pull !== undefined && others.length === 0, `there are ${pulls.length} pull requests`)
  const tip = git(origin.path, "rev-parse", branch)
  assert.deepInclude(pull, { state: "open", draft: true, headSha: tip })
  assert.deepStrictEqual(git(origin.path, "for-each-ref", "--format=%(refname)", `refs/heads/**/*${id}*`), `refs/heads/${branch}`)

  const { publications } = yield* SandboxStore.use((store) => store.find({ grantId, id }))
  assert.strictEqual(publications.length, 1)
  assert.deepInclude(publications[0], {
    actionState: "idle",
    error: null,
    headSha: tip,
    number: pull.number,
    state: "open",
    draft: true,
    merged: false
  })
  const events = yield* updates(id)
  assert.deepInclude(events.at(-1)?.data, { action_state: "idle", head_sha: tip, number: pull.number })

  assert.deepStrictEqual(git(origin.path, "ls-tree", "-r", "--name-only", tip).split("\n"), [".gitignore", "README.md", "committed.txt",
    "open.txt"])
  assert.deepStrictEqual(git(origin.path, "show", `${tip}:committed.txt`, `${tip}:open.txt`), `${what}\n${what}`)
  // A later publication names what the agent committed since, and takes nothing away.
  const [newest, before] = git(origin.path, "log", "-2", "--format=%an: %s", tip).split("\n")
  assert.strictEqual(newest, "Slipway: Say hello")
  if (before !== `Agent: ${what}`) assert.include(git(origin.path, "log", "-1", "--format=%b", tip), `- ${what}`)
  return { events: events.map(({ data }) => data.action_state), tip }
})

/** A sandbox that goes on with the pull request of another one and gets its feedback, the people there, and what came of it. */
export const successor = Effect.fnUntraced(function*(origin: Origin) {
  const { grantId } = yield* Database
  const store = yield* SandboxStore
  const sql = yield* SqlClient.SqlClient
  const { directory: from, id: finished, lease: before } = yield* (yield* sandboxes(origin)).next
  yield* ask(finished)
  yield* carryOut(from, origin, before)
  const branch = headRef(finished)
  const [published] = (yield* origin.pulls).filter((pull) => pull.headRef === branch)
  assert(published !== undefined)
  const { number } = published
  const directory = yield* temporaryFolder
  const services = worker({ directory, ...origin.settings }, origin.privateKey)
  const details = yield* SourceHost.use((host) => host.findOpenPullRequest(REPO, branch)).pipe(Effect.provide(services))
  assert(details !== null)
  const id = newId()
  yield* clone(directory, origin, id, branch)
  const began = yield* DateTime.now
  const state = newFeedback({ ...NO_FEEDBACK, comments: "all" }, DateTime.subtract(began, { hours: 1 }))
  const continues = { repo: REPO, branch, pullRequest: number, headSha: published.headSha, sandboxId: finished, details }
  const lease = yield* running(id, continues, state)
  const tree = treeOf(directory, id)
  yield* Round.agentTurn(lease, tree)
  yield* Leases.use((leases) => leases.endLeases(id))
  const ports = Round.portsLayer(origin.settings, origin.privateKey)
  const all = Round.useCase.pipe(Layer.provideMerge(ports), Layer.provideMerge(services))
  let said = 0
  /** A person's comment of some minutes ago. */
  const say = Effect.fnUntraced(function*(text: string) {
    const time = DateTime.add(began, { minutes: -10, seconds: ++said })
    yield* origin.say(number, text, time)
    yield* Round.noticed(REPO, branch)
  }, Effect.provide(all))
  /** Another worker goes on in place of the killed one. */
  const look = Effect.gen(function*() {
    yield* Leases.use((leases) => leases.endLeases(id))
    yield* sql`UPDATE feedback_watches SET claimed_until = NULL`
    yield* Round.roundOnce(id, grantId, tree)
  }).pipe(Effect.provide(all))
  const events = Effect.map(store.log(id, 0, 100_000), (entries) => entries.map(({ wire }) => fromWire(wire).event))
  const replies = Effect.provide(Round.replies(REPO, number), all)
  return { branch, directory, events, id, lease, look, number, replies, say, tree }
})
