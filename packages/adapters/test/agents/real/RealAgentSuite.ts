/** What every real agent is held to: the contract, and that nothing of the host or of a hostile repository gets through. */
import { readdirSync, readFileSync } from "node:fs"
import path from "node:path"
import { assert, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { type AgentEvent, AgentRuntime, type AgentSession } from "@slipway/domain/sandbox/AgentRuntime"
import { costOf } from "@slipway/domain/sandbox/Budget"
import * as AgentRuntimeContract from "@slipway/domain/testing/AgentRuntimeContract"
import { PRICES } from "@slipway/domain/testing/ModelGatewayContract"
import { profiles } from "@slipway/adapters/agents/AgentRuntimeProfiles"
import * as FakeModel from "@slipway/adapters/testing/fake-model/FakeModel"
import { KEY, layer as gatewayLayer, open as openGateway, upstreamOf } from "../../gateway/Gateway.ts"
import { temporaryFolder } from "../../hosts/Machine.ts"
import { plant } from "./HostileRepository.ts"
import { freshToken, layer, sandbox } from "./RealAgent.ts"

const prompt = (session: AgentSession, text: string) =>
  Effect.gen(function*() {
    const events: Array<AgentEvent> = []
    const end = yield* session.prompt({
      turnId: "00000000-0000-5000-8000-000000000001",
      text,
      onEvent: (event) =>
        Effect.suspend(() => {
          events.push(event)
          return event._tag === "ApprovalRequested" ? session.decide(event.approvalId, "deny") : Effect.void
        })
    })
    return { end, events, approvals: events.filter((event) => event._tag === "ApprovalRequested") }
  })

/** Content of a file; empty when the agent has just removed it. */
const contentOf = (file: string) => {
  try {
    return readFileSync(file)
  } catch {
    return Buffer.alloc(0)
  }
}

/** Files below `folder` with `text` in them. */
const filesWith = (folder: string, text: string): ReadonlyArray<string> =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ name, parentPath }) => path.join(parentPath, name))
    .filter((file) => contentOf(file).includes(text))

/** Arguments and environments of the processes whose home is this one. */
const processesOf = (home: string) =>
  readdirSync("/proc").filter((name) => /^\d+$/u.test(name)).flatMap((pid) => {
    try {
      const environment = readFileSync(`/proc/${pid}/environ`, "utf8")
      return environment.includes(`HOME=${home}\0`) ? [{ environment, args: readFileSync(`/proc/${pid}/cmdline`, "utf8") }] : []
    } catch {
      return []
    }
  })

/**
 * `believes`: traps that work when they lie in the workspace itself, where only the agent can put them. Not a way out of
 * the box, but past the questions of prompt mode.
 */
export const suite = (name: string, believes: ReadonlyArray<string> = []) => {
  const profile = profiles[name]
  if (profile === undefined) throw new Error(`there is no profile ${name}`)
  const { afterDenial, countsRequests } = profile.capabilities
  const fixture = { profile: name, model: `test/${name}`, traits: { afterDenial, countsRequests }, sandbox: sandbox(name) }
  AgentRuntimeContract.suite(name, layer, fixture)
  AgentRuntimeContract.models(name, layer, fixture)

  it.layer(layer, { excludeTestServices: true })(`the host and ${name}`, (it) => {
    const open = Effect.fnUntraced(function*(
      { access, box, repositories }: Effect.Success<ReturnType<typeof sandbox>>,
      toolApprovalMode: "auto" | "prompt",
      instructions: string | null = null
    ) {
      const runtime = yield* AgentRuntime
      return yield* runtime.open({
        box, repositories, access, instructions, toolApprovalMode,
        profile: name, model: `test/${name}`, reasoningEffort: null, resume: null
      })
    })

    it.effect("shows the agent nothing of the worker's environment, and its token to nobody else", () =>
      Effect.gen(function*() {
        const canary = freshToken()
        process.env.SLIPWAY_TEST_CANARY = canary
        const made = yield* sandbox(name)
        const session = yield* open(made, "auto")
        assert.deepStrictEqual((yield* prompt(session, "[[shell env > env.txt]] [[say done]]")).end, { state: "succeeded" })
        const processes = processesOf(made.box.home)
        assert.isNotEmpty(processes)
        const token = Redacted.value(made.access.token)
        for (const { args, environment } of processes) {
          assert.notInclude(environment, canary)
          assert.notInclude(args, canary)
          assert.notInclude(args, token)
        }
        assert.notInclude(yield* made.read("env.txt"), canary)
        assert.deepStrictEqual(filesWith(made.box.home, canary), [])
        assert.deepStrictEqual(filesWith(made.box.home, token), [])
      })
    )

    const { modelProtocol } = profile.capabilities
    if (modelProtocol !== null) {
      it.effect("pays through the gateway for exactly what the model served, and never sees its key", () =>
        Effect.gen(function*() {
          const made = yield* sandbox(name)
          const model = yield* FakeModel.start({ token: KEY, workspace: { path: made.box.workspace, repositories: made.repositories } })
          const upstream = upstreamOf(modelProtocol, `${model.url}/v1`, { model: made.access.model, contextTokens: 128_000, outputTokens: 8_192 })
          const gateway = yield* openGateway(upstream)
          const session = yield* open({ ...made, access: gateway.access }, "auto")
          const { end, events } = yield* prompt(
            session,
            "[[usage input=900 cached=400 output=70 reasoning=20]] [[shell env > env.txt]] [[think hm]] [[say done]]"
          )
          assert.deepStrictEqual(end, { state: "succeeded" })

          const { usage } = yield* gateway.account
          const served = model.requests.flatMap(({ usage }) => usage === null ? [] : [usage])
          const cost = (usage: (typeof served)[number]) =>
            costOf(PRICES, { input: usage.input, cachedInput: usage.cached, cacheWrite: 0, output: usage.output })
          assert.isAtLeast(served.length, 2)
          assert.strictEqual(usage.llmRequestCount, served.length)
          assert.strictEqual(usage.costMicroUsd, served.reduce((sum, each) => sum + cost(each), 0))

          for (const { args, environment } of processesOf(made.box.home)) assert.notInclude(args + environment, KEY)
          assert.notInclude(yield* made.read("env.txt"), KEY)
          assert.deepStrictEqual([...filesWith(made.box.home, KEY), ...filesWith(made.box.workspace, KEY)], [])
          assert.notInclude(JSON.stringify(events), KEY)
          for (const { headers } of model.requests) assert.notInclude(JSON.stringify(headers), Redacted.value(gateway.access.token))
        }).pipe(Effect.provide(gatewayLayer()))
      )
    }

    it.effect.each(["repository", "workspace"])("runs nothing of a hostile %s, and asks all the same", (where) =>
      Effect.gen(function*() {
        const evil = yield* temporaryFolder
        // The agent itself may have left it where the next one starts.
        const made = yield* sandbox(name, (repository) => plant(where === "repository" ? repository : path.dirname(repository), evil))
        const session = yield* open(made, "prompt", "MARK-AGENTS")
        const { approvals, end } = yield* prompt(session, "[[write path=f.txt content=hi]] [[say ok]]")
        assert.deepStrictEqual(end, { state: "succeeded" })
        assert.strictEqual(approvals.length, 1)
        assert.isNull(yield* made.read("f.txt"))
        for (const { body } of yield* made.asked) assert.include(body, "MARK-AGENTS")
        // What is started beside the turn has had its time.
        yield* Effect.sleep("1500 millis")
        assert.deepStrictEqual(readdirSync(evil).sort(), where === "repository" ? [] : believes)
      })
    )
  })
}
