/** The worker on real technology: Postgres, git, processes of this machine and the offline agent. No clock is turned here. */
import { assert, it } from "@effect/vitest"
import * as AgentRuntimeProfiles from "@slipway/agents/profiles/AgentRuntimeProfiles"
import { Access } from "@slipway/domain/access/usecases/Access"
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { Publishing } from "@slipway/domain/publishing/usecases/Publishing"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { questionsOf } from "@slipway/domain/sandbox/rules/Question"
import type { Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { fromWire } from "@slipway/domain/sandbox/schema/SandboxEvent"
import { CreateSandbox } from "@slipway/domain/sandbox/usecases/CreateSandbox"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { SourceHost } from "@slipway/domain/source/ports/SourceHost"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import * as WorkingTreesGit from "@slipway/git/working-trees/WorkingTreesGit"
import { workspacesIn } from "@slipway/machine/files/TreesLayout"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import * as SandboxHostNone from "@slipway/machine/none/SandboxHostNone"
import * as AccessStorePostgres from "@slipway/postgres/access-store/AccessStorePostgres"
import * as CheckpointsPostgres from "@slipway/postgres/checkpoints/CheckpointsPostgres"
import * as HintsPostgres from "@slipway/postgres/HintsPostgres"
import * as LeasesPostgres from "@slipway/postgres/leases/LeasesPostgres"
import * as MaintenancePostgres from "@slipway/postgres/maintenance/MaintenancePostgres"
import * as Migrations from "@slipway/postgres/Migrations"
import * as SandboxStorePostgres from "@slipway/postgres/sandbox-store/SandboxStorePostgres"
import * as SetupsPostgres from "@slipway/postgres/setups/SetupsPostgres"
import * as WorkersPostgres from "@slipway/postgres/workers/WorkersPostgres"
import * as WorkerNode from "@slipway/worker/WorkerNode"
import { Effect, Layer, Option, Schema } from "effect"
import { execFileSync } from "node:child_process"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { principal } from "../Doubles.ts"

const directory = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "slipway-worker-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)

const makeOrigin = (path: string) => {
  const git = (...args: ReadonlyArray<string>) => execFileSync("git", ["-C", path, ...args], { stdio: "pipe" })
  mkdirSync(path)
  git("init", "--quiet", "--initial-branch=main")
  writeFileSync(join(path, "README.md"), "# Site\n")
  git("add", ".")
  git("-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "--quiet", "-m", "First")
}

const Machine = Layer.unwrap(Effect.map(directory, (path) => {
  const origin = join(path, "origin")
  makeOrigin(origin)
  return Layer.mergeAll(
    WorkingTreesGit.layer({ directory: join(path, "trees") }).pipe(
      Layer.provideMerge(SandboxHostNone.layer({ directory: join(path, "boxes"), workspaceOf: workspacesIn(join(path, "trees")) }))
    ),
    AgentRuntimeProfiles.layer(),
    Layer.mock(SourceHost, {
      names: ["local"],
      nameOf: () => Effect.succeed("local"),
      refusal: () => Effect.succeed(null),
      repository: (fullName) => Effect.succeed({ fullName, defaultBranch: "main" }),
      remote: () => Effect.succeed({ url: origin, authorization: null })
    })
  )
}))

const Live = Layer.mergeAll(Sandboxes.layer, Publishing.layer, Access.layer).pipe(
  Layer.provideMerge(
    Layer.mergeAll(
      SandboxStorePostgres.layer,
      LeasesPostgres.layer,
      MaintenancePostgres.layer,
      SetupsPostgres.layer,
      WorkersPostgres.layer,
      CheckpointsPostgres.layer,
      AccessStorePostgres.layer,
      Machine
    )
  ),
  Layer.provideMerge(Layer.merge(HintsPostgres.layer, IdsNode.layer)),
  Layer.provide(TestPostgres.layer(Migrations.layer))
)

it.live("boots, works, asks, is interrupted, crashes, goes on and is terminated", () =>
  Effect.gen(function*() {
    const sandboxes = yield* Sandboxes
    const store = yield* SandboxStore
    const trees = yield* WorkingTrees
    const { grant } = yield* (yield* Access).createGrant("test")
    const by = { ...principal, grantId: grant.id }
    yield* WorkerNode.start({ worker: "worker-1", machine: "machine-1", slots: 2, agents: 4, boots: 2 })

    const body = {
      repos: [{ fullName: "acme/site" }],
      prompt: "[[say Hello]] [[write path=a.txt content=one]]",
      toolApprovalMode: "prompt"
    }
    const request = yield* Schema.decodeUnknownEffect(CreateSandbox)(body)
    const { sandbox: { id } } = yield* sandboxes.create(by, request, Option.none())
    const until = (is: (sandbox: Sandbox) => boolean) => sandboxes.get(by, id).pipe(Effect.delay("10 millis"), Effect.repeat({ until: is }))
    const events = Effect.map(store.log(id, 0, 1000), (entries) => entries.map(({ wire }) => fromWire(wire).event))
    const ended = Effect.map(events, (all) => all.flatMap((event) => event.type === "turn.completed" ? [event.data] : []))
    const send = (prompt: string) => sandboxes.sendMessage(by, id, prompt, Option.none())

    const asking = yield* until(({ approvals }) => approvals.length === 1)
    yield* sandboxes.decideApproval(by, id, asking.approvals[0]?.approval_id ?? "", { decision: "approve" })
    yield* until(({ turn }) => turn?.state === "succeeded")
    const { working } = yield* trees.compare({ sandboxId: id, repo: "acme/site" }, "a.txt", 100)
    assert.strictEqual(working?.content?.trim(), "one")

    yield* send("[[write path=b.txt content=two]]")
    const again = yield* until(({ approvals }) => approvals.length === 1)
    yield* sandboxes.decideApproval(by, id, again.approvals[0]?.approval_id ?? "", { decision: "deny", reason: "Only a.txt." })
    yield* until(({ turn }) => turn?.state === "succeeded")
    assert.strictEqual(
      (yield* store.messages(id, 0, 100)).at(-1)?.text,
      "I was not allowed to do this, so I left it: Write b.txt. I was told: Only a.txt."
    )

    yield* send("[[ask Which one? | first | second || multiple=true text=false What else? | a | b]]")
    const asked = yield* until(({ turn }) => turn?.state === "awaiting_answer")
    const [question] = questionsOf(asked)
    const reply = { answers: { 1: { text: "neither" }, 2: { labels: ["a", "b"] } } }
    yield* sandboxes.answerQuestion(by, id, question?.question_id ?? "", reply)
    yield* until(({ turn }) => turn?.state === "succeeded")
    assert.strictEqual((yield* store.messages(id, 0, 100)).at(-1)?.text, "Which one? You said: neither.\nWhat else? You said: a, b.")

    yield* send("[[hang]]")
    yield* until(({ turn }) => turn?.state === "running")
    yield* sandboxes.interrupt(by, id)
    yield* until(({ turn }) => turn?.state === "interrupted")

    yield* send("[[crash]]")
    yield* until(({ turn }) => turn?.state === "failed")
    yield* send("[[recall]]")
    yield* until(({ turn }) => turn?.state === "succeeded")
    const messages = yield* store.messages(id, 0, 100)
    assert.include(messages.at(-1)?.text, "[[hang]]")

    assert.deepStrictEqual(yield* ended, [
      { state: "succeeded" },
      { state: "succeeded" },
      { state: "succeeded" },
      { state: "interrupted", reason: "interrupt", initiator: "user" },
      { state: "failed", reason: "agent_lost", initiator: "provider" },
      { state: "succeeded" }
    ])
    yield* sandboxes.terminate(by, id)
    yield* until(({ status }) => status === "terminated")
    assert.isFalse(yield* trees.has(id))
  }).pipe(Effect.provide(Live)))
