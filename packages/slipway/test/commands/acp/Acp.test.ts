/** `slipway acp` as an editor starts it, on a service with the offline agent. */
import * as acp from "@agentclientprotocol/sdk"
import { assert, layer } from "@effect/vitest"
import { SlipwayClient } from "@slipway/client"
import * as SpawnedProgram from "@slipway/machine/testing/SpawnedProgram"
import { Context, Effect, Layer } from "effect"
import { execFileSync } from "node:child_process"
import { mkdirSync } from "node:fs"
import path from "node:path"
import { command, environment, folder, repository, run, serve } from "../SlipwayProcess.ts"
import { choosing, editor, type Options } from "./EditorProcess.ts"

const LONG = 300_000
const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
const ACPX = path.resolve(import.meta.dirname, "../../../../../node_modules/acpx/dist/cli.js")

/** A service with one repository, and a checkout of it. */
class Service extends Context.Service<Service, {
  readonly url: string
  readonly checkout: string
  readonly env: Readonly<Record<string, string | undefined>>
  readonly client: SlipwayClient
  readonly key: string
  /** A key with these scopes. */
  readonly mint: (scopes: string) => Effect.Effect<string>
}>()("test/acp/Service") {
  static readonly layer = Layer.effect(
    Service,
    Effect.gen(function*() {
      const data = yield* folder
      const { key = "", url } = yield* serve(data, { SLIPWAY_ISOLATION: "none" })
      yield* run(data, ["repos", "add", "acme/shop", repository(data)])
      const checkout = path.join(data, "checkout")
      mkdirSync(checkout)
      execFileSync("git", ["init", "--quiet"], { cwd: checkout })
      execFileSync("git", ["remote", "add", "origin", "git@git.example:acme/shop.git"], { cwd: checkout })
      const env = { ...environment(data, {}), XDG_CONFIG_HOME: path.join(data, "config"), SLIPWAY_URL: url, SLIPWAY_API_KEY: key }
      const mint = (scopes: string) =>
        Effect.map(
          run(data, ["keys", "create", "--grant", "editors", "--scopes", scopes, "--json"]),
          ({ stdout }) => JSON.parse(stdout).key
        )
      return { url, checkout, env, mint, client: new SlipwayClient({ baseUrl: url, apiKey: key }), key }
    })
  )
}

/** An editor whose folder is the checkout. */
const opened = Effect.fnUntraced(function*(options: Partial<Options> = {}) {
  const { checkout, env } = yield* Service
  return yield* editor({ cwd: checkout, ...options, env: { ...env, ...options.env } })
})
const asked = <A>(request: () => Promise<A>) => Effect.promise(request)

const { session } = acp.methods.agent

layer(Service.layer, { excludeTestServices: true, timeout: LONG })("slipway acp", (it) => {
  it.effect("asks for a sign-in without a key, and says the command for it", () =>
    Effect.gen(function*() {
      const { checkout, key, url } = yield* Service
      const without = yield* opened({ env: { SLIPWAY_API_KEY: undefined } })
      const { authMethods } = yield* asked(() => without.initialize())
      assert.deepStrictEqual(authMethods, [{
        id: "slipway-sign-in",
        name: "Sign in to Slipway",
        description: `Run in a terminal: slipway auth login --url ${url}`
      }])
      for (
        const request of [
          without.agent.request(session.new, { cwd: checkout, mcpServers: [] }),
          without.agent.request(acp.methods.agent.authenticate, { methodId: "slipway-sign-in" })
        ]
      ) {
        const { code, message } = yield* asked(() => without.refusal(request))
        assert.strictEqual(code, -32_000)
        assert.include(message, `slipway auth login --url ${url}`)
      }
      const wrong = `${key.slice(0, -4)}aaaa`
      const refused = yield* opened({ env: { SLIPWAY_API_KEY: wrong }, capabilities: { auth: { terminal: true } } })
      const [method] = (yield* asked(() => refused.initialize({ auth: { terminal: true } }))).authMethods ?? []
      assert.deepInclude(method, { type: "terminal", args: ["--sign-in"] })
      const { code } = yield* asked(() => refused.refusal(refused.agent.request(session.new, { cwd: checkout, mcpServers: [] })))
      assert.strictEqual(code, -32_000)
      assert.notInclude(refused.program.output(), wrong)
    }), LONG)

  it.effect("takes the repository of the editor's folder, and creates a sandbox with the first prompt alone", () =>
    Effect.gen(function*() {
      const { checkout, client } = yield* Service
      const before = (yield* asked(() => client.listSandboxes())).data.length
      const one = yield* opened()
      const id = yield* asked(() => one.open(checkout))
      assert.strictEqual((yield* asked(() => client.listSandboxes())).data.length, before)
      const { stopReason } = yield* asked(() => one.prompt(id, "[[think Let me see]][[plan + Read; > Write]][[say Hello there]]"))
      assert.strictEqual(stopReason, "end_turn")
      const [newest] = (yield* asked(() => client.listSandboxes())).data
      assert.deepStrictEqual(newest?.repos.map(({ fullName }) => fullName), ["acme/shop"])
      const said = one.text("agent_message_chunk")
      assert.include(said, `The sandbox ${newest?.id} starts from acme/shop at its default branch.`)
      assert.include(said, "Uncommitted and unpushed changes of this folder are not in it.")
      assert.strictEqual(said.split("Hello there").length, 2)
      assert.include(one.text("agent_thought_chunk"), "Let me see")
      assert.deepStrictEqual(one.of("plan").at(-1)?.entries.map(({ content, status }) => [content, status]), [
        ["Read", "completed"],
        ["Write", "in_progress"]
      ])
      assert.strictEqual(one.text("user_message_chunk"), "")
      assert.deepInclude(one.of("tool_call_update").find(({ status }) => status === "completed"), { toolCallId: "slipway:boot" })
      assert.deepStrictEqual(one.strange, [])
    }), LONG)

  it.effect("shows an edit with its comparison and the file of the folder, and sends the decision", () =>
    Effect.gen(function*() {
      const { checkout, client } = yield* Service
      const one = yield* opened({ args: ["--approvals", "prompt"], onPermission: choosing("approve") })
      const id = yield* asked(() => one.open(checkout))
      yield* asked(() => one.prompt(id, "[[write path=src/a.ts content=export const a = 1]][[say Done]]"))
      const [request] = one.permissions
      const file = path.join(checkout, "src/a.ts")
      assert.deepInclude(request?.toolCall, { kind: "edit", locations: [{ path: file }] })
      assert.deepInclude(request?.toolCall.content?.[0], { type: "diff", path: file, oldText: null, newText: "export const a = 1\n" })
      assert.deepStrictEqual(request?.options.map(({ kind, optionId }) => [optionId, kind]), [
        ["approve", "allow_once"],
        ["approve_turn", "allow_always"],
        ["deny", "reject_once"]
      ])
      const call = one.of("tool_call_update").filter(({ toolCallId }) => toolCallId === request?.toolCall.toolCallId).at(-1)
      assert.strictEqual(call?.status, "completed")
      assert.deepInclude(call?.content?.[0], { type: "diff", path: file })
      const [newest] = (yield* asked(() => client.listSandboxes())).data
      assert.include(yield* asked(async () => new TextDecoder().decode(await client.diffFiles(newest?.id ?? ""))), "export const a = 1")
      assert.deepStrictEqual(one.strange, [])
    }), LONG)

  it.effect(
    "tells the agent why a person denied, and takes a decision of another client as the end of its own request",
    () =>
      Effect.gen(function*() {
        const { checkout, client } = yield* Service
        const denying = yield* opened({
          args: ["--approvals", "prompt"],
          capabilities: { elicitation: { form: {} } },
          onPermission: choosing("deny_with_reason"),
          onForm: () => Promise.resolve({ action: "accept", content: { reason: "Not in this folder" } })
        })
        const first = yield* asked(() => denying.open(checkout))
        yield* asked(() => denying.prompt(first, "[[write path=b.ts content=b]]"))
        assert.include(denying.text("agent_message_chunk"), "I was told: Not in this folder")
        const one = yield* opened({ args: ["--approvals", "prompt"] })
        const id = yield* asked(() => one.open(checkout))
        const prompted = one.prompt(id, "[[write path=c.ts content=c]][[say Written]]")
        const approval = yield* asked(() => one.sees(() => one.permissions[0]?.toolCall.toolCallId))
        const [newest] = (yield* asked(() => client.listSandboxes())).data
        yield* asked(() => client.approve(newest?.id ?? "", approval))
        assert.deepStrictEqual(yield* asked(() => prompted), { stopReason: "end_turn" })
        yield* asked(() => one.sees(() => one.takenBack === 1))
        assert.include(one.text("agent_message_chunk"), "Written")
      }),
    LONG
  )

  it.effect("shows a question as a form, or as buttons in an editor without forms", () =>
    Effect.gen(function*() {
      const { checkout } = yield* Service
      const forms = yield* opened({
        capabilities: { elicitation: { form: {} } },
        onForm: () => Promise.resolve({ action: "accept", content: { question_1: "second" } })
      })
      const first = yield* asked(() => forms.open(checkout))
      yield* asked(() => forms.prompt(first, "[[ask Which one? | first | second]]"))
      assert.deepInclude(forms.forms[0], { mode: "form", sessionId: first, message: "Which one?" })
      assert.include(forms.text("agent_message_chunk"), "second")
      const buttons = yield* opened({ onPermission: choosing("option_1") })
      const second = yield* asked(() => buttons.open(checkout))
      yield* asked(() => buttons.prompt(second, "[[ask Which one? | first | second]]"))
      assert.deepStrictEqual(buttons.permissions[0]?.options.map(({ name }) => name), ["first", "second", "Go on without an answer"])
      assert.include(buttons.text("agent_message_chunk"), "first")
    }), LONG)

  it.effect("tells a question that buttons cannot answer as text, with the command that answers it", () =>
    Effect.gen(function*() {
      const { checkout, client } = yield* Service
      const one = yield* opened()
      const id = yield* asked(() => one.open(checkout))
      const prompted = one.prompt(id, "[[ask Which color? || Which size? | S | L]]")
      const question = yield* asked(() =>
        one.sees(() => /slipway answer (c_\w+) --question (\S+) ANSWER/u.exec(one.text("agent_message_chunk")) ?? undefined)
      )
      const [, sandbox = "", asking = ""] = question
      assert.include(one.text("agent_message_chunk"), "Which color?")
      yield* asked(() => client.answerQuestion(sandbox, asking.replaceAll("'", ""), { dismiss: true }))
      assert.deepStrictEqual(yield* asked(() => prompted), { stopReason: "end_turn" })
    }), LONG)

  it.effect("interrupts the turn that the editor cancels, and goes on in the same sandbox", () =>
    Effect.gen(function*() {
      const { checkout, client } = yield* Service
      const one = yield* opened()
      const id = yield* asked(() => one.open(checkout))
      const prompted = one.prompt(id, "[[say Begun]][[hang]]")
      yield* asked(() => one.sees(() => one.text("agent_message_chunk").includes("Begun")))
      yield* asked(() => one.agent.notify(session.cancel, { sessionId: id }))
      assert.deepStrictEqual(yield* asked(() => prompted), { stopReason: "cancelled" })
      const count = (yield* asked(() => client.listSandboxes())).data.length
      assert.deepStrictEqual(yield* asked(() => one.prompt(id, "[[say Again]]")), { stopReason: "end_turn" })
      assert.strictEqual((yield* asked(() => client.listSandboxes())).data.length, count)
      assert.include(one.text("agent_message_chunk"), "Again")
    }), LONG)

  it.effect("interrupts a first prompt that the editor cancels before its sandbox exists", () =>
    Effect.gen(function*() {
      const { checkout } = yield* Service
      const one = yield* opened()
      const id = yield* asked(() => one.open(checkout))
      const prompted = one.prompt(id, "[[hang]]")
      yield* asked(() => one.agent.notify(session.cancel, { sessionId: id }))
      assert.deepStrictEqual(yield* asked(() => prompted), { stopReason: "cancelled" })
    }), LONG)

  it.effect("queues a prompt behind the turn of another client, and withdraws it when the editor cancels", () =>
    Effect.gen(function*() {
      const { checkout, client } = yield* Service
      const one = yield* opened()
      const id = yield* asked(() => one.open(checkout))
      yield* asked(() => one.prompt(id, "[[say First]]"))
      const [{ id: sandbox } = { id: "" }] = (yield* asked(() => client.listSandboxes())).data
      yield* asked(() => client.sendMessage(sandbox, "[[say Of another client]][[listen]]"))
      yield* asked(() => one.sees(() => one.text("agent_message_chunk").includes("Of another client")))
      assert.include(one.text("user_message_chunk"), "[[listen]]")
      const prompted = one.prompt(id, "[[say Queued]]")
      yield* asked(() => one.sees(() => one.text("agent_message_chunk").includes("waits for its turn (position 1)")))
      yield* asked(() => one.agent.notify(session.cancel, { sessionId: id }))
      assert.deepStrictEqual(yield* asked(() => prompted), { stopReason: "cancelled" })
      assert.isTrue((yield* asked(() => client.getSandbox(sandbox))).turn.active)
      const second = one.prompt(id, "[[say Behind it]]")
      yield* asked(() => client.interruptTurn(sandbox))
      assert.deepStrictEqual(yield* asked(() => second), { stopReason: "end_turn" })
      assert.include(one.text("agent_message_chunk"), "Behind it")
    }), LONG)

  it.effect(
    "sends images and files of the prompt, long texts as files too, and refuses what the API does not take",
    () =>
      Effect.gen(function*() {
        const { checkout, client } = yield* Service
        const one = yield* opened()
        const id = yield* asked(() => one.open(checkout))
        const uri = `file://${checkout}/src/long.ts`
        yield* asked(() =>
          one.prompt(id, [
            { type: "text", text: "[[images]] See" },
            { type: "resource_link", name: "a.ts", uri: `file://${checkout}/src/a.ts` },
            { type: "image", mimeType: "image/png", data: PIXEL },
            { type: "resource", resource: { uri: `file://${checkout}/b.md`, text: "short" } },
            { type: "resource", resource: { uri, text: "x".repeat(10_001) } }
          ])
        )
        assert.include(one.text("agent_message_chunk"), "image/png")
        const [{ id: sandbox } = { id: "" }] = (yield* asked(() => client.listSandboxes())).data
        const { data: [message] } = yield* asked(() => client.listMessages(sandbox))
        assert.deepStrictEqual(message?.files.map(({ name, size }) => [name, size]), [["image-1.png", 70], ["long.ts", 10_001]])
        assert.strictEqual(message?.text, "[[images]] See src/a.ts [file: image-1.png]\n\nb.md:\n```\nshort\n```\n\n[file: long.ts]")
        const { code, message: why } = yield* asked(() => one.refusal(one.prompt(id, "x".repeat(60_001))))
        assert.deepStrictEqual([code, why], [-32_602, "A prompt has at most 60000 characters: shorten it."])
      }),
    LONG
  )

  it.effect("fails a turn with its reason, and a session of a folder without a repository with what to do", () =>
    Effect.gen(function*() {
      const { checkout } = yield* Service
      const one = yield* opened()
      const id = yield* asked(() => one.open(checkout))
      const { message } = yield* asked(() => one.refusal(one.prompt(id, "[[error the model is overloaded]]")))
      assert.include(message, "the model is overloaded")
      const nowhere = one.agent.request(session.new, { cwd: path.dirname(checkout), mcpServers: [] })
      assert.include((yield* asked(() => one.refusal(nowhere))).message, "slipway acp --repo owner/name")
      const unknown = one.prompt("acp_unknown", "hello")
      assert.strictEqual((yield* asked(() => one.refusal(unknown))).code, -32_002)
    }), LONG)

  it.effect(
    "lists the sandboxes of the folder, loads one with its whole log once, and resumes one without it",
    () =>
      Effect.gen(function*() {
        const { checkout } = yield* Service
        const before = yield* opened()
        const id = yield* asked(() => before.open(checkout))
        yield* asked(() => before.prompt(id, "[[say First answer]]"))
        yield* asked(() => before.prompt(id, "[[say Second answer]]"))
        yield* asked(() => before.program.kill())
        const after = yield* opened()
        const { sessions } = yield* asked(() => after.agent.request(session.list, { cwd: checkout }))
        assert.deepInclude(sessions[0], { sessionId: id, cwd: checkout })
        yield* asked(() => after.agent.request(session.load, { sessionId: id, cwd: checkout, mcpServers: [] }))
        assert.strictEqual(after.text("user_message_chunk"), "[[say First answer]][[say Second answer]]")
        assert.strictEqual(after.text("agent_message_chunk").split("answer").length, 3)
        yield* asked(() => after.prompt(id, "[[say Third answer]]"))
        assert.strictEqual(after.text("agent_message_chunk").split("answer").length, 4)
        const resumed = yield* opened()
        yield* asked(() => resumed.agent.request(session.resume, { sessionId: id, cwd: checkout, mcpServers: [] }))
        assert.strictEqual(resumed.text("agent_message_chunk") + resumed.text("user_message_chunk"), "")
        yield* asked(() => resumed.prompt(id, "[[say Fourth answer]]"))
        assert.strictEqual(resumed.text("agent_message_chunk").trim(), "Fourth answer")
        const missing = resumed.agent.request(session.load, { sessionId: "acp_none", cwd: checkout, mcpServers: [] })
        assert.strictEqual((yield* asked(() => resumed.refusal(missing))).code, -32_002)
      }),
    LONG
  )

  it.effect("asks again in a loaded session for the approval that waits", () =>
    Effect.gen(function*() {
      const { checkout } = yield* Service
      const before = yield* opened({ args: ["--approvals", "prompt"] })
      const id = yield* asked(() => before.open(checkout))
      void before.prompt(id, "[[write path=d.ts content=d]][[say Written]]").catch(() => undefined)
      yield* asked(() => before.sees(() => before.permissions.length === 1))
      yield* asked(() => before.program.kill())
      const after = yield* opened({ onPermission: choosing("approve") })
      yield* asked(() => after.agent.request(session.load, { sessionId: id, cwd: checkout, mcpServers: [] }))
      yield* asked(() => after.sees(() => after.text("agent_message_chunk").includes("Written")))
      assert.strictEqual(after.permissions.length, 1)
    }), LONG)

  it.effect("offers model and approvals before the first prompt, and the chosen ones alone behind it", () =>
    Effect.gen(function*() {
      const { checkout, mint } = yield* Service
      const key = yield* mint("sandboxes,models")
      const one = yield* opened({ env: { SLIPWAY_API_KEY: key }, onPermission: choosing("approve") })
      const { configOptions, sessionId } = yield* asked(() => one.agent.request(session.new, { cwd: checkout, mcpServers: [] }))
      assert.deepStrictEqual(configOptions?.map(({ currentValue, id }) => [id, currentValue]), [["model", "default"], ["approvals",
        "auto"]])
      const choose = (configId: string, value: string) => one.agent.request(session.setConfigOption, { sessionId, configId, value })
      yield* asked(() => choose("approvals", "prompt"))
      yield* asked(() => choose("model", "offline/demo"))
      assert.strictEqual((yield* asked(() => one.refusal(choose("model", "unknown/model")))).code, -32_602)
      yield* asked(() => one.prompt(sessionId, "[[write path=e.ts content=e]]"))
      assert.strictEqual(one.permissions.length, 1)
      const [changed] = one.of("config_option_update")
      assert.deepStrictEqual(
        changed?.configOptions.map((option) =>
          option.type === "select" ? option.options.map((one) => "value" in one ? one.value : "") : []
        ),
        [["offline/demo"], ["prompt"]]
      )
      assert.include((yield* asked(() => one.refusal(choose("approvals", "auto")))).message, "Start a new session")
    }), LONG)

  it.effect("publishes, shows the patch and names the page by its commands, without the sandbox's agent", () =>
    Effect.gen(function*() {
      const { checkout, url } = yield* Service
      const one = yield* opened()
      const id = yield* asked(() => one.open(checkout))
      yield* asked(() => one.prompt(id, "/diff"))
      assert.include(one.text("agent_message_chunk"), "There is no sandbox yet")
      yield* asked(() => one.prompt(id, "[[write path=f.ts content=const f = 1]]"))
      yield* asked(() => one.prompt(id, "/diff"))
      assert.include(one.text("agent_message_chunk"), "```diff")
      assert.include(one.text("agent_message_chunk"), "+const f = 1")
      yield* asked(() => one.prompt(id, "/open"))
      assert.match(one.text("agent_message_chunk"), new RegExp(`Open ${url}/sandboxes/c_\\w{12}`, "u"))
      yield* asked(() => one.prompt(id, "/publish"))
      assert.match(one.text("agent_message_chunk"), /acme\/shop: http\S+/u)
      assert.deepStrictEqual(one.strange, [])
    }), LONG)

  it.effect("works with acpx, a published client with a version of the protocol's library of its own", () =>
    Effect.gen(function*() {
      const { checkout, client, env } = yield* Service
      const agent = `${process.execPath} ${command} acp --approvals prompt`
      const options = ["--agent", agent, "--cwd", checkout, "--approve-all", "--format", "json"]
      const prompt = "[[write path=x.ts content=const x = 1]][[say Written by acpx]]"
      const ended = yield* SpawnedProgram.run(process.execPath, [ACPX, ...options, "exec", prompt], {
        cwd: checkout,
        env: { ...env, HOME: path.dirname(checkout) }
      })
      assert.strictEqual(ended.code, 0, ended.stdout + ended.stderr)
      assert.include(ended.stdout, "Written by acpx")
      assert.include(ended.stdout, "end_turn")
      const [{ id } = { id: "" }] = (yield* asked(() => client.listSandboxes())).data
      assert.include(yield* asked(async () => new TextDecoder().decode(await client.diffFiles(id))), "+const x = 1")
    }), LONG)

  it.effect("ends when the editor closes its input, and leaves the sandbox running", () =>
    Effect.gen(function*() {
      const { checkout, client } = yield* Service
      const one = yield* opened()
      const id = yield* asked(() => one.open(checkout))
      yield* asked(() => one.prompt(id, "[[say Here]]"))
      one.program.child.stdin.end()
      assert.deepStrictEqual(yield* asked(() => one.program.ended), { code: 0, signal: null })
      const [newest] = (yield* asked(() => client.listSandboxes())).data
      assert.strictEqual(newest?.status, "running")
    }), LONG)
})
