import { assert, describe, it } from "@effect/vitest"
import * as CachePath from "@slipway/domain/environment/rules/CachePath"
import { isReserved } from "@slipway/domain/environment/schema/VariableName"
import { AgentRuntime, type AgentSessionOptions } from "@slipway/domain/sandbox/ports/AgentRuntime"
import { type BoxCommand, HostError } from "@slipway/domain/sandbox/ports/SandboxHost"
import * as Egress from "@slipway/machine/egress/Egress"
import { Effect, Redacted, Result } from "effect"
import * as AgentRuntimeProfiles from "../src/profiles/AgentRuntimeProfiles.ts"
import { string } from "../src/Toml.ts"
import { box } from "../testing/FakeProcess.ts"

const INSTRUCTIONS = `Say "hi".\nNever $(rm -rf /) \u{1F600}`

const options = (profile: string, more: Partial<AgentSessionOptions> = {}): AgentSessionOptions => ({
  box,
  profile,
  model: "vendor/model",
  access: {
    baseUrl: "http://127.0.0.1:1",
    token: Redacted.make("the-token"),
    model: `m"odel\\ \n[x]`,
    contextTokens: 1000,
    outputTokens: 100
  },
  instructions: INSTRUCTIONS,
  reasoningEffort: "high",
  toolApprovalMode: "prompt",
  repositories: [],
  resume: null,
  ...more
})

const launches = (more?: Partial<AgentSessionOptions>) =>
  Object.entries(AgentRuntimeProfiles.profiles)
    .filter(([, { program }]) => program !== null)
    .map(([name, profile]) => ({ name, profile, launch: profile.launch(options(name, more), "/agents/x") }))

describe("profiles", () => {
  it("give the token to the agent's environment alone", () => {
    for (const { launch, name } of launches()) {
      assert.include(Object.values(launch.env).join("\n"), "the-token", name)
      assert.notInclude(launch.args.join("\n"), "the-token", name)
      assert.notInclude(Object.values(launch.homeFiles ?? {}).join("\n"), "the-token", name)
    }
  })

  it("name no two modes by the same command", () => {
    for (const { launch, name, profile } of launches()) {
      const auto = profile.launch(options(name, { toolApprovalMode: "auto" }), "/agents/x")
      // Codex is told when its thread begins.
      if (name !== "codex") assert.notDeepEqual(auto, launch)
    }
  })

  it("keep what they write below the home, and what they write about in it", () => {
    for (const { launch } of launches()) {
      for (const path of Object.keys(launch.homeFiles ?? {})) assert.match(path, /^(?:\.?[\w-]+\/)+[\w.-]+$/u)
      const files = Object.keys(launch.homeFiles ?? {}).map((path) => `${box.home}/${path}`)
      const named = [...launch.args, ...Object.values(launch.env)].join("\n").match(/\/sandbox\/home\/\.slipway\/[\w.]+/gu) ?? []
      for (const file of named) assert.include(files, file)
    }
  })

  it("set no variable that a repository may set", () => {
    const launched = Object.entries(AgentRuntimeProfiles.profiles).map(([name, profile]) => profile.launch(options(name), "/agents/x").env)
    for (const name of [...launched, Egress.environment].flatMap((env) => Object.keys(env))) assert.isTrue(isReserved(name), name)
  })

  it("keep nothing where a repository may cache", () => {
    for (const [name, profile] of Object.entries(AgentRuntimeProfiles.profiles)) {
      const { homeFiles = {} } = profile.launch(options(name), "/agents/x")
      for (const path of [...Object.keys(homeFiles), ...profile.conversationFiles]) {
        const folders = path.split("/").map((_, i, segments) => `~/${segments.slice(0, i + 1).join("/")}`)
        for (const folder of folders) assert.isTrue(Result.isFailure(CachePath.parse(folder)), folder)
      }
    }
  })

  it("write no instructions where there are none", () => {
    for (const { launch, name } of launches({ instructions: null })) {
      assert.notInclude(JSON.stringify(launch), ".slipway", name)
    }
  })

  it("give the tool for questions to agents whose questions are answered, and opencode no sub-agents where people are asked", () => {
    const none: BoxCommand = { command: "", args: [], env: {} }
    const of = (name: string, more: Partial<AgentSessionOptions> = {}): BoxCommand =>
      AgentRuntimeProfiles.profiles[name]?.launch(options(name, more), "/agents/x") ?? none
    const { args } = of("claude")
    assert.notInclude(args[args.indexOf("--disallowed-tools") + 1] ?? "", "AskUserQuestion")
    assert.include(of("codex").homeFiles?.[".codex/config.toml"], "default_mode_request_user_input = true\n")
    assert.include(of("grok").homeFiles?.[".grok/config.toml"], "ask_user_question = false\n")
    const task = (toolApprovalMode: "auto" | "prompt") =>
      JSON.parse(of("opencode", { toolApprovalMode }).env["OPENCODE_PERMISSION"] ?? "{}").task
    assert.deepStrictEqual([task("prompt"), task("auto")], ["deny", undefined])
  })

  it("tell codex and opencode that a model takes images, unless the operator says that it takes none", () => {
    const told = (name: string, images?: boolean) => {
      const more = images === undefined ? {} : { images }
      const launched = AgentRuntimeProfiles.profiles[name]?.launch(options(name, more), "/agents/x")
      const { env, homeFiles = {} }: BoxCommand = launched ?? { command: "", args: [], env: {} }
      return [homeFiles[".codex/catalogue.json"], env["OPENCODE_CONFIG_CONTENT"]].join("")
    }
    for (const name of ["codex", "opencode"]) {
      assert.match(told(name), /"text","image"/u, name)
      assert.match(told(name, true), /"text","image"/u, name)
      assert.notInclude(told(name, false), `"image"`, name)
    }
  })

  it("escape what stands in configuration files", () => {
    assert.strictEqual(string(`a"b\\c\nd\u007Fe`), `"a\\"b\\\\c\\nd\\u007Fe"`)
    for (const { launch } of launches()) {
      for (const [path, text] of Object.entries(launch.homeFiles ?? {})) {
        if (path.endsWith(".toml")) assert.notMatch(text, /^\[x\]/mu)
      }
    }
  })

  it("tell codex about a model it does not know, and leave alone the ones it does", () => {
    const { codex } = AgentRuntimeProfiles.profiles
    assert.isDefined(codex)
    const filesFor = (model: string) => {
      const { access } = options("codex")
      const launch = codex?.launch(options("codex", { access: access === null ? null : { ...access, model } }), "/agents/x")
      return Object.keys(launch?.homeFiles ?? {})
    }
    assert.deepStrictEqual(filesFor("gpt-6-sol"), [".codex/config.toml"])
    assert.deepStrictEqual(filesFor("gpt-5.5-2026-11-01"), [".codex/config.toml"])
    assert.deepStrictEqual(filesFor("other"), [".codex/config.toml", ".codex/catalogue.json"])
  })
})

describe("AgentRuntimeProfiles", () => {
  it("each version of an agent has the day of its pin", () => {
    const programs = Object.values(AgentRuntimeProfiles.profiles).flatMap(({ program }) => program ?? [])
    assert.isNotEmpty(programs)
    for (const { pinnedOn } of programs) {
      assert.match(pinnedOn, /^20\d\d-\d\d-\d\d$/u)
      assert.isFalse(Number.isNaN(Date.parse(pinnedOn)))
    }
  })

  const refused = (more: Partial<AgentSessionOptions>, profile = "codex") =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(Effect.scoped((yield* AgentRuntime).open(options(profile, more))))
      assert.isFalse(error.retryable)
      return error.detail
    }).pipe(Effect.provide(AgentRuntimeProfiles.layer()))

  it.live("refuses an agent that is not installed, with the command that helps", () =>
    Effect.gen(function*() {
      assert.include(yield* refused({}), "slipway agents install codex")
    }))

  it.live("refuses an effort the runtime does not have, before it starts anything", () =>
    Effect.gen(function*() {
      assert.include(yield* refused({ reasoningEffort: "ultracode" }), "ultracode")
    }))

  it.live("tells a box that refuses to run it from an agent that cannot", () =>
    Effect.gen(function*() {
      const refusing = {
        ...box,
        spawn: () => Effect.fail(new HostError({ operation: "spawn", detail: "no namespaces", retryable: false }))
      }
      const open = (more: Partial<AgentSessionOptions>) =>
        Effect.flip(Effect.scoped(AgentRuntime.use((runtime) => runtime.open(options("offline", { reasoningEffort: null, ...more })))))
      const byHost = yield* open({ box: refusing })
      assert.deepStrictEqual([byHost.refusedByHost, byHost.retryable, byHost.detail], [true, false, "no namespaces"])
      assert.isUndefined((yield* open({ profile: "codex" })).refusedByHost)
      const itself = { operation: "spawn", detail: "the home has a link in it", retryable: false, ofSandbox: true } as const
      const bySandbox = yield* open({ box: { ...box, spawn: () => Effect.fail(new HostError(itself)) } })
      assert.deepStrictEqual([bySandbox.refusedByHost, bySandbox.detail], [undefined, itself.detail])
    }).pipe(Effect.provide(AgentRuntimeProfiles.layer())))

  it.live("refuses an agent that is given no way to its model", () =>
    Effect.gen(function*() {
      assert.include(yield* refused({ access: null }), "no way to reach a model")
    }))
})
