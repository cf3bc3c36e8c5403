/** The rules for every real agent: the contract, and no access to the host for a hostile repository. */
import { assert, it } from "@effect/vitest"
import { profiles } from "@slipway/agents/profiles/AgentRuntimeProfiles"
import * as FakeModel from "@slipway/agents/testing/fake-model/FakeModel"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { costOf } from "@slipway/domain/models/rules/Budget"
import { type AgentEvent, AgentRuntime, type AgentSession } from "@slipway/domain/sandbox/ports/AgentRuntime"
import { KEY, layer as gatewayLayer, open as openGateway, upstreamOf } from "@slipway/gateway/testing/Gateway"
import { temporaryFolder } from "@slipway/machine/testing/hosts/Machine"
import { PRICES } from "@slipway/testing/contracts/models/ModelGatewayContract"
import * as AgentRuntimeContract from "@slipway/testing/contracts/sandbox/AgentRuntimeContract"
import { register } from "@slipway/testing/runners/Vitest"
import { Effect, Redacted } from "effect"
import { chmodSync, mkdirSync, readdirSync, readFileSync } from "node:fs"
import path from "node:path"
import { plant } from "./HostileRepository.ts"
import * as McpTools from "./McpTools.ts"
import { chooseHost, freshToken, type Host, moved, Premises, sandbox, unisolated } from "./RealAgent.ts"
import * as SubAgents from "./SubAgents.ts"

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

/** Arguments and environments of the sandbox's processes and of those that make its box: all have its id in their environment. */
const processesOf = (sandboxId: SandboxId) =>
  readdirSync("/proc").filter((name) => /^\d+$/u.test(name)).flatMap((pid) => {
    try {
      const environment = readFileSync(`/proc/${pid}/environ`, "utf8")
      return environment.includes(sandboxId) ? [{ environment, args: readFileSync(`/proc/${pid}/cmdline`, "utf8") }] : []
    } catch {
      return []
    }
  })

type Made = Effect.Success<ReturnType<typeof sandbox>>

const opening = (name: string) =>
  Effect.fnUntraced(function*(
    { access, box, repositories }: Pick<Made, "access" | "box" | "repositories">,
    toolApprovalMode: "auto" | "prompt",
    instructions: string | null = null,
    resume: string | null = null
  ) {
    const runtime = yield* AgentRuntime
    return yield* runtime.open({
      box,
      repositories,
      access,
      instructions,
      toolApprovalMode,
      profile: name,
      model: `test/${name}`,
      reasoningEffort: null,
      resume
    })
  })

/** A conversation whose files came from a sandbox with other paths goes on, or is refused for good where the profile says so. */
const moving = Effect.fnUntraced(function*(layer: Host["layer"], name: string, as: "itself" | "fork", bears: boolean) {
  const made = yield* sandbox(name)
  const resume = yield* Effect.scoped(Effect.gen(function*() {
    const session = yield* opening(name)(made, "auto")
    yield* prompt(session, "[[say the word is XYZZY]]")
    return yield* session.sessionId
  }))
  const { conversationFiles } = yield* AgentRuntime
  const there = yield* moved(layer, name, as)(made, conversationFiles(name))
  const resumed = opening(name)(there.sandbox, "auto", null, resume).pipe(Effect.provideService(AgentRuntime, there.runtime))
  if (!bears) return assert.isFalse((yield* Effect.flip(resumed)).retryable)
  yield* prompt(yield* resumed, "[[say again]]")
  const [asked] = yield* there.sandbox.asked
  assert.include(asked?.body, "XYZZY")
})

interface Quirks {
  /**
   * Traps that work when they lie in the workspace itself, where only the agent can put them. Not a way out of the box, but past
   * the questions of prompt mode.
   */
  readonly believes?: ReadonlyArray<string>
}

const bearsOf = (name: string) => profiles[name]?.capabilities.bearsOtherPaths ?? { home: false, workspace: false }

const happyPath = ({ layer, name: hostName }: Host, name: string) =>
  it.layer(layer, { excludeTestServices: true })(`${name} on host ${hostName}`, (it) => {
    it.effect("edits files, runs commands and answers", () =>
      Effect.gen(function*() {
        const made = yield* sandbox(name)
        const session = yield* opening(name)(made, "auto")
        const { end, events } = yield* prompt(session, "[[write path=a.txt content=one]] [[shell echo two > b.txt]] [[say done]]")
        assert.deepStrictEqual(end, { state: "succeeded" })
        assert.deepStrictEqual([yield* made.read("a.txt"), yield* made.read("b.txt")], ["one\n", "two\n"])
        assert.isTrue(events.some((event) => event._tag === "MessageUpdated" && event.text.includes("done")))
      }))

    const bears = bearsOf(name)
    it.effect(
      bears.workspace
        ? "goes on with its conversation where the workspace has another path"
        : "refuses for good to go on where the workspace has another path",
      () => moving(layer, name, "itself", bears.workspace)
    )
  })

const everything = (
  { layer, name: hostName }: Host,
  name: string,
  { believes = [] }: Quirks
) => {
  const profile = profiles[name]
  if (profile === undefined) throw new Error(`there is no profile ${name}`)
  const { afterDenial, countsRequests } = profile.capabilities
  const fixture = {
    profile: name,
    model: `test/${name}`,
    traits: { afterDenial, countsRequests },
    sandbox: sandbox(name),
    moved: hostName === "none" && !bearsOf(name).workspace ? null : moved(layer, name)
  }
  register(AgentRuntimeContract.suite(`${name} on host ${hostName}`, layer, fixture))
  register(AgentRuntimeContract.models(`${name} on host ${hostName}`, layer, fixture))

  it.layer(layer, { excludeTestServices: true })(`host ${hostName} and ${name}`, (it) => {
    const open = opening(name)

    it.effect("shows the agent nothing of the worker's environment, and its token to no other process", () =>
      Effect.gen(function*() {
        const canary = freshToken()
        process.env.SLIPWAY_TEST_CANARY = canary
        const made = yield* sandbox(name)
        const session = yield* open(made, "auto")
        assert.deepStrictEqual((yield* prompt(session, "[[shell env > env.txt]] [[say done]]")).end, { state: "succeeded" })
        const processes = processesOf(made.box.sandboxId)
        const token = Redacted.value(made.access.token)
        // The agent is among them.
        assert.isTrue(processes.some(({ environment }) => environment.includes(token)))
        for (const { args, environment } of processes) {
          assert.notInclude(environment, canary)
          assert.notInclude(args, canary)
          assert.notInclude(args, token)
        }
        assert.notInclude(yield* made.read("env.txt"), canary)
        assert.deepStrictEqual(filesWith(made.folder, canary), [])
        assert.deepStrictEqual(filesWith(made.folder, token), [])
      }))

    SubAgents.rules(it, name, (made, mode) => open(made, mode))
    if (profile.capabilities.modelProtocol !== null) McpTools.rules(it, name)

    if (hostName !== "none" && profile.capabilities.modelProtocol !== null) {
      const { home } = bearsOf(name)
      it.effect(
        home ? "goes on with its conversation in a fork" : "refuses for good to go on with its conversation in a fork",
        () => moving(layer, name, "fork", home)
      )
    }

    const { modelProtocol } = profile.capabilities
    if (modelProtocol !== null) {
      it.effect("pays through the gateway for exactly what the model served, and never sees its key", () =>
        Effect.gen(function*() {
          const made = yield* sandbox(name)
          const model = yield* FakeModel.start({ token: KEY, workspace: { path: made.box.workspace, repositories: made.repositories } })
          const upstream = upstreamOf(modelProtocol, `${model.url}/v1`, {
            model: made.access.model,
            contextTokens: 128_000,
            outputTokens: 8_192
          })
          const gateway = yield* openGateway(upstream)
          const baseUrl = yield* (yield* Premises).reach(made.box.sandboxId, gateway.access.baseUrl)
          const session = yield* open({ ...made, access: { ...gateway.access, baseUrl } }, "auto")
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

          for (const { args, environment } of processesOf(made.box.sandboxId)) assert.notInclude(args + environment, KEY)
          assert.notInclude(yield* made.read("env.txt"), KEY)
          assert.deepStrictEqual([...filesWith(made.folder, KEY), ...filesWith(made.workspace, KEY)], [])
          assert.notInclude(JSON.stringify(events), KEY)
          for (const { headers } of model.requests) assert.notInclude(JSON.stringify(headers), Redacted.value(gateway.access.token))
        }).pipe(Effect.provide(gatewayLayer())))
    }

    const keptIn = hostName !== "none"
    const reach = keptIn ? "which reach nothing outside the box" : "with nothing to keep them in"
    const ofWorkspace = believes.length === 0
      ? "runs nothing of a hostile workspace"
      : `runs ${believes.join(" and ")} of a hostile workspace, ${reach}`
    const places = [
      { where: "slipway", rule: "runs nothing of a hostile repository", sprung: [] },
      // The agent itself may have left it where the next one starts.
      { where: ".", rule: ofWorkspace, sprung: believes }
    ]
    for (const { rule, sprung, where } of places) {
      it.effect(`${rule}, and asks all the same`, () =>
        Effect.gen(function*() {
          const made = yield* sandbox(name)
          const inside = path.join(made.workspace, "evil")
          mkdirSync(inside)
          const outside = yield* temporaryFolder
          // Nothing but the box is in the way.
          chmodSync(outside, 0o777)
          yield* Effect.promise(() => plant(path.join(made.workspace, where), [path.join(made.box.workspace, "evil"), outside]))
          const session = yield* open(made, "prompt", "MARK-AGENTS")
          const { approvals, end } = yield* prompt(session, "[[write path=f.txt content=hi]] [[say ok]]")
          assert.deepStrictEqual(end, { state: "succeeded" })
          assert.strictEqual(approvals.length, 1)
          assert.isNull(yield* made.read("f.txt"))
          for (const { body } of yield* made.asked) assert.include(body, "MARK-AGENTS")
          // Processes started beside the turn have had their time.
          yield* Effect.sleep("1500 millis")
          assert.deepStrictEqual(readdirSync(inside).sort(), sprung)
          assert.deepStrictEqual(readdirSync(outside).sort(), keptIn ? [] : sprung)
        }))
    }
  })
}

const host = await Effect.runPromise(chooseHost)

/** All of it on the host of this machine, and in any case a turn and a move without a box. */
export const suite = (name: string, quirks: Quirks = {}) => {
  everything(host, name, quirks)
  happyPath(unisolated, name)
}
