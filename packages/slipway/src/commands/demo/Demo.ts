/** `slipway demo`: the main task from start to end, with the real service, over HTTP only. */
import { Clock, Effect } from "effect"
import { Command, Flag } from "effect/cli"
import path from "node:path"
import * as GitProgram from "../../service/machine/GitProgram.ts"
import * as SampleRepository from "../../service/SampleRepository.ts"
import * as TemporaryFolder from "../../service/storage/TemporaryFolder.ts"
import { heading, note, step } from "../terminal/Progress.ts"
import { demoEnvironment } from "./DemoEnvironment.ts"
import { call, connect, expect, following, REPO, start } from "./DemoSteps.ts"

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
  yield* heading("Slipway demo: an agent, a repository, a draft pull request. Only the model is simulated.")
  yield* GitProgram.version
  const folder = yield* TemporaryFolder.make("demo")

  const service = yield* start(folder)
  yield* step(
    "a git repository is made",
    Effect.tap(SampleRepository.make(path.join(folder, "shop")), (repository) => service.repositories.register(REPO, repository.path)),
    ({ commits, files }) => `${REPO}, ${commits} commits, ${files} files`
  )
  const client = yield* connect(service)

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
    call("creating", () => client.createSandbox(request, { idempotencyKey })),
    ({ id, status }) => `${id}, ${status}`
  )
  const follow = yield* following(client, sandbox.id)

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
    Effect.map(call("listing", () => client.listFiles(sandbox.id)), ({ entries }) => entries.filter(({ status }) => status !== null)),
    (entries) => entries.map(({ additions, path, status }) => `${path} (${status}, +${additions})`).join(", ")
  )
  yield* expect(changed.length === 1 && changed[0]?.path === FILE, "not exactly the one new file is listed as changed")
  const file = yield* step(
    "one is downloaded",
    call("downloading", async () => (await client.downloadFile(sandbox.id, FILE)).arrayBuffer()),
    (bytes) => `${FILE}, ${bytes.byteLength} bytes`
  )
  yield* expect(new TextDecoder().decode(file).startsWith("# Discounts"), "the downloaded file is not the one the agent wrote")

  const published = yield* step(
    "a draft pull request is published",
    call("publishing", () => client.publishPullRequest(sandbox.id)),
    ({ pullRequest }) => pullRequest === null ? "" : `#${pullRequest.number}, ${pullRequest.headRef} → ${pullRequest.baseRef}`
  )
  yield* expect(published.pullRequest?.draft === true, "no draft pull request was opened")
  const again = yield* step(
    "creating again finds the same sandbox",
    call("creating again", () => client.createSandbox(request, { idempotencyKey })),
    ({ id, status }) => `${id}, ${status} by now`
  )
  yield* expect(again.id === sandbox.id, "the repeated creation made another sandbox")
  const republished = yield* step(
    "publishing again finds the same one",
    call("publishing again", () => client.publishPullRequest(sandbox.id)),
    ({ pullRequest }) => `#${pullRequest?.number}`
  )
  yield* expect(republished.pullRequest?.number === published.pullRequest?.number, "the repeated publication opened another pull request")

  yield* step(
    "the sandbox is terminated",
    Effect.andThen(
      call("terminating", () => client.terminateSandbox(sandbox.id)),
      follow((event) => event.type === "sandbox.status" && event.data.status === "terminated" ? event : undefined)
    ),
    () => "nothing of it is left"
  )
  return { sandbox, published, started }
})

const wholeJob = Effect.gen(function*() {
  const { published, sandbox, started } = yield* Effect.scoped(run)
  const took = (yield* Clock.currentTimeMillis) - started
  yield* heading(
    `Done in ${(took / 1000).toFixed(1)} s: one sandbox (${sandbox.id}), one pull request (#${published.pullRequest?.number}), ` +
      "everything stopped and removed."
  )
  // A checkout runs the sources; an installed package is compiled.
  yield* note(`Keep a server of your own with: ${import.meta.url.endsWith(".ts") ? "npm start" : "slipway serve"}`)
})

export const demo = Command.make("demo", {
  environment: Flag.Boolean("environment").pipe(
    Flag.withDescription(
      "Show a setup that installs packages, and its cache. Needs npm"
    ),
    Flag.withDefault(false)
  )
}, ({ environment }) => environment ? demoEnvironment : wholeJob).pipe(
  Command.withDescription("Show a whole run on a temporary server"),
  Command.withExamples([{ command: "slipway demo", description: "From a repository to a draft pull request" }, {
    command: "slipway demo --environment",
    description: "A setup that installs packages, and its cache"
  }])
)
