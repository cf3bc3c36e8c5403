/** `slipway demo --environment`: setup, cache and test of a repository with dependencies, over HTTP only. */
import type { SlipwayClient } from "@slipway/client"
import { Clock, Effect } from "effect"
import path from "node:path"
import * as GitProgram from "../../service/machine/GitProgram.ts"
import * as SampleRepository from "../../service/SampleRepository.ts"
import * as TemporaryFolder from "../../service/storage/TemporaryFolder.ts"
import { heading, note, step } from "../terminal/Progress.ts"
import * as DemoRegistry from "./DemoRegistry.ts"
import * as DemoRepository from "./DemoRepository.ts"
import { call, connect, expect, following, REPO, start } from "./DemoSteps.ts"

const PROMPT = "[[say I run the tests.]]\n[[shell npm test]]\n[[say They pass.]]"

/** The output of the repository's test when it has the package. */
const TESTED = "a table costs 1,200 EUR"

/** Follows a sandbox from its creation to the end of its first turn, which runs the tests. */
const tested = Effect.fnUntraced(function*(client: SlipwayClient, title: string, cache: "hit" | "miss") {
  const sandbox = yield* step(
    "a sandbox is created",
    call("creating", () => client.createSandbox({ repos: [{ fullName: REPO }], prompt: PROMPT, title })),
    ({ id, status }) => `${id}, ${status}`
  )
  const follow = yield* following(client, sandbox.id)
  const booted = yield* step(
    cache === "miss" ? "setup installs its packages" : "setup finds them in the cache",
    follow((event) => event.type === "sandbox.boot" && event.data.stage === "setup" ? event.data : undefined),
    ({ cache, ms }) => `${ms} ms, cache: ${cache}`
  )
  yield* expect(booted.cache === cache, `the cache of the setup is ${booted.cache} and not ${cache}`)
  const setup = yield* call("reading the setup", () => client.getSetup(sandbox.id))
  for (const line of setup.output.trimEnd().split("\n").filter((line) => line !== "")) yield* note(line)
  yield* expect(
    setup.state === "succeeded",
    "the setup failed: its output is above. It needs node and npm on the PATH of boxes"
  )
  const tool = yield* step(
    "the agent runs the tests",
    follow((event) => event.type === "tool.updated" && ["completed", "error"].includes(event.data.status) ? event.data : undefined),
    ({ detail }) => detail?.command ?? ""
  )
  const output = tool.detail?.output ?? ""
  for (const line of output.trimEnd().split("\n").filter((line) => line !== "")) yield* note(line)
  yield* expect(output.includes(TESTED), "the tests did not run with the package that the setup installed")
  const turn = yield* step(
    "the turn ends",
    follow((event) => event.type === "turn.completed" ? event.data : undefined),
    ({ state }) => state
  )
  yield* expect(turn.state === "succeeded", `the turn ended as ${turn.state}`)
  yield* step(
    "the sandbox is terminated",
    Effect.andThen(
      call("terminating", () => client.terminateSandbox(sandbox.id)),
      follow((event) => event.type === "sandbox.status" && event.data.status === "terminated" ? event : undefined)
    ),
    () => "its installed files are cached for the next one"
  )
  return { setupMillis: booted.ms }
})

const run = Effect.gen(function*() {
  const started = yield* Clock.currentTimeMillis
  yield* heading("Slipway demo: a repository says what its sandboxes need. Only the model is simulated.")
  yield* GitProgram.version
  const folder = yield* TemporaryFolder.make("demo")
  const registry = yield* step(
    "a registry of npm packages is up",
    DemoRegistry.serve,
    ({ packages, port }) => `${packages} packages, ${DemoRegistry.NAME}:${port}`
  )
  const service = yield* start(folder, {
    egressAllow: new Set([`${DemoRegistry.NAME}:${registry.port}`]),
    toolDetail: "full"
  }, {
    lookup: (name) => Promise.resolve(name === `${DemoRegistry.NAME}.` ? [DemoRegistry.ADDRESS] : []),
    mayConnect: (address) => address === DemoRegistry.ADDRESS
  })
  // Without isolation, sandboxes use this machine's network, which cannot resolve the name.
  const url = `https://${service.isolation === "none" ? DemoRegistry.ADDRESS : DemoRegistry.NAME}:${registry.port}`
  const repository = yield* step(
    "a git repository is made",
    SampleRepository.make(path.join(folder, "shop"), [...SampleRepository.history, DemoRepository.withPackages(registry, url)]),
    ({ commits, files }) => `${REPO}, ${commits} commits, ${files} files`
  )
  yield* service.repositories.register(REPO, repository.path)
  yield* note(`${DemoRepository.ENVIRONMENT_FILE}: ${DemoRepository.ENVIRONMENT}`)
  const client = yield* connect(service)

  const first = yield* tested(client, "Run the tests", "miss")
  const downloads = yield* registry.downloads
  yield* expect(downloads === registry.packages, `the registry gave out ${downloads} archives`)
  const second = yield* tested(client, "Run them again", "hit")
  yield* expect((yield* registry.downloads) === downloads, "the second sandbox asked the registry")
  return { first, second, started }
}).pipe(Effect.scoped)

export const demoEnvironment = Effect.gen(function*() {
  const { first, second, started } = yield* run
  const took = (yield* Clock.currentTimeMillis) - started
  yield* heading(
    `Done in ${(took / 1000).toFixed(1)} s: two sandboxes. Setup took the first ${first.setupMillis} ms, and the second ` +
      `${second.setupMillis} ms; everything is stopped and removed.`
  )
  yield* note("Try the setup of a repository of your own with: slipway env run")
})
