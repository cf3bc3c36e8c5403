/** `slipway demo`: the main job from one end to the other, on the real service, over HTTP alone. */
import { LocalRepositories } from "@slipway/adapters/local-source/LocalRepositories"
import { SlipwayClient, type StreamEvent } from "@slipway/client"
import { Access } from "@slipway/domain/access/Access"
import { Clock, Effect, Layer, Redacted, Schema } from "effect"
import { Command } from "effect/cli"
import path from "node:path"
import * as GitProgram from "../service/GitProgram.ts"
import * as Service from "../service/Service.ts"
import * as TemporaryFolder from "../service/TemporaryFolder.ts"
import * as Settings from "../settings/Settings.ts"
import * as DemoRepository from "./DemoRepository.ts"
import { heading, note, step } from "./Progress.ts"
import { addressOf, reserve } from "./Serve.ts"

/** Something came out differently from what Slipway promises. */
class DemoFailed extends Schema.TaggedError<DemoFailed>()("DemoFailed", { detail: Schema.String }) {
  override get message() {
    return `the demo failed: ${this.detail}`
  }
}
const expect = (holds: boolean, detail: string) => holds ? Effect.void : Effect.fail(new DemoFailed({ detail }))
const call = <A>(detail: string, request: () => Promise<A>) =>
  Effect.tryPromise({
    try: request,
    catch: (error) => new DemoFailed({ detail: `${detail}: ${error instanceof Error ? error.message : String(error)}` })
  })

const REPO = "demo/shop"
const FILE = "DISCOUNTS.md"
const PROMPT = [
  "Add a page about discounts.",
  "[[think The README lists what there is; discounts deserve a page of their own.]]",
  "[[say I will write a page about discounts.]]",
  `[[write path=${FILE} content=# Discounts\n\nTen chairs cost what nine do.\n]]`,
  "[[say The page is written.]]"
].join("\n")

const run = Effect.gen(function*() {
  const started = yield* Clock.currentTimeMillis
  yield* heading("Slipway demo: an agent, a repository, a draft pull request. Nothing here is simulated but the model.")
  const given = yield* Settings.load
  yield* GitProgram.version
  const folder = yield* TemporaryFolder.make("demo")

  const { access, repositories, server } = yield* step(
    "Postgres and the server are up",
    Effect.gen(function*() {
      const address = { host: "127.0.0.1", port: yield* reserve({ host: "127.0.0.1", port: 0 }) }
      const settings = {
        ...given,
        ...address,
        publicUrl: null,
        dataDir: path.join(folder, "data"),
        databaseUrl: null,
        role: "all" as const,
        github: null,
        signIn: null
      }
      const server = addressOf(address.host, address.port)
      const services = yield* Layer.build(Service.layer(settings, server))
      return { ...yield* Effect.provide(Effect.all({ access: Access, repositories: LocalRepositories }), services), server }
    }),
    ({ server }) => server
  )
  yield* step(
    "a git repository is made",
    Effect.tap(DemoRepository.make(path.join(folder, "shop")), (repository) => repositories.register(REPO, repository.path)),
    ({ commits, files }) => `${REPO}, ${commits} commits, ${files} files`
  )
  const key = yield* step(
    "an API key is minted",
    access.createKey({ grant: "demo", label: "demo", scopes: ["sandboxes"], kind: "live" }),
    ({ record }) => `${record.prefix}…${record.last4}`
  )
  yield* note("From here on, everything goes over HTTP.")
  const client = new SlipwayClient({ baseUrl: server, apiKey: Redacted.value(key.key) })

  const request = {
    repos: [{ fullName: REPO }],
    prompt: PROMPT,
    title: "Explain discounts",
    toolApprovalMode: "prompt" as const,
    metadata: { from: "demo" }
  }
  const idempotencyKey = "demo-1"
  const sandbox = yield* step(
    "a sandbox is created",
    call("creating", () => client.create(request, { idempotencyKey })),
    ({ id, status }) => `${id}, ${status}`
  )
  const reading = new AbortController()
  yield* Effect.addFinalizer(() => Effect.sync(() => reading.abort()))
  const events = client.stream(sandbox.id, { signal: reading.signal })

  /** Reads the stream up to the first event that `wanted` accepts, showing what goes by. */
  const follow = <A>(wanted: (event: StreamEvent) => A | undefined) =>
    call("following the stream", async () => {
      for (;;) {
        const next = await events.next()
        if (next.done === true) throw new Error("the stream ended early")
        const shown = describe(next.value)
        if (shown !== undefined) await Effect.runPromise(note(shown))
        const found = wanted(next.value)
        if (found !== undefined) return found
      }
    })

  yield* step("it boots and takes the prompt", follow((event) => event.type === "turn.started" ? event : undefined))
  const approval = yield* step(
    "the agent asks before it writes",
    follow((event) => event.type === "approval.requested" ? event.data : undefined),
    ({ tool }) => tool
  )
  yield* step(
    "the tool call is approved",
    call("approving", () => client.approve(sandbox.id, approval.approval_id)),
    ({ outcome }) => outcome
  )
  const turn = yield* step(
    "the turn ends",
    follow((event) => event.type === "turn.completed" ? event.data : undefined),
    ({ state }) => state
  )
  yield* expect(turn.state === "succeeded", `the turn ended as ${turn.state}`)

  const changed = yield* step(
    "changed files are listed",
    Effect.map(call("listing", () => client.files(sandbox.id)), ({ entries }) => entries.filter(({ status }) => status !== null)),
    (entries) => entries.map(({ additions, path, status }) => `${path} (${status}, +${additions})`).join(", ")
  )
  yield* expect(changed.length === 1 && changed[0]?.path === FILE, "not exactly the one new file is listed as changed")
  const file = yield* step(
    "one is downloaded",
    call("downloading", async () => (await client.download(sandbox.id, FILE)).arrayBuffer()),
    (bytes) => `${FILE}, ${bytes.byteLength} bytes`
  )
  yield* expect(new TextDecoder().decode(file).startsWith("# Discounts"), "the downloaded file is not the one the agent wrote")

  const published = yield* step(
    "a draft pull request is published",
    call("publishing", () => client.publish(sandbox.id)),
    ({ pullRequest }) => pullRequest === null ? "" : `#${pullRequest.number}, ${pullRequest.headRef} → ${pullRequest.baseRef}`
  )
  yield* expect(published.pullRequest?.draft === true, "no draft pull request was opened")
  const again = yield* step(
    "creating again finds the same sandbox",
    call("creating again", () => client.create(request, { idempotencyKey })),
    ({ id, status }) => `${id}, ${status} by now`
  )
  yield* expect(again.id === sandbox.id, "the repeated creation made another sandbox")
  const republished = yield* step(
    "publishing again finds the same one",
    call("publishing again", () => client.publish(sandbox.id)),
    ({ pullRequest }) => `#${pullRequest?.number}`
  )
  yield* expect(republished.pullRequest?.number === published.pullRequest?.number, "the repeated publication opened another pull request")

  yield* step(
    "the sandbox is terminated",
    Effect.andThen(
      call("terminating", () => client.terminate(sandbox.id)),
      follow((event) => event.type === "sandbox.status" && event.data.status === "terminated" ? event : undefined)
    ),
    () => "nothing of it is left"
  )
  return { sandbox, published, started }
})

/** What is worth showing of an event while it goes by. */
const describe = (event: StreamEvent): string | undefined => {
  switch (event.type) {
    case "sandbox.status":
      return "previous" in event.data ? `${event.data.previous ?? "new"} → ${event.data.status}` : undefined
    case "sandbox.boot":
      return `${event.data.stage}${event.data.repo === undefined ? "" : ` ${event.data.repo}`} took ${event.data.ms} ms`
    case "message.updated":
      return `${event.data.kind === "reasoning" ? "thinks" : "says"}: ${event.data.text}`
    case "tool.updated":
      return `${event.data.tool}: ${event.data.status}`
    default:
      return undefined
  }
}

export const demo = Command.make("demo", {}, () =>
  Effect.gen(function*() {
    const { published, sandbox, started } = yield* Effect.scoped(run)
    const took = (yield* Clock.currentTimeMillis) - started
    yield* heading(
      `Done in ${(took / 1000).toFixed(1)} s: one sandbox (${sandbox.id}), one pull request (#${published.pullRequest?.number}), ` +
        "everything stopped and removed."
    )
    yield* note("Keep a server of your own with: npm start")
  })).pipe(Command.withDescription("Show the whole job on a server of its own that leaves nothing behind"))
