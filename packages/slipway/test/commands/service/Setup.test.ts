import { assert, it } from "@effect/vitest"
import * as Installed from "@slipway/agents/Installed"
import { profiles } from "@slipway/agents/profiles/AgentRuntimeProfiles"
import * as FakeModel from "@slipway/agents/testing/fake-model/FakeModel"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import * as SpawnedProgram from "@slipway/machine/testing/SpawnedProgram"
import * as Database from "@slipway/postgres/Database"
import * as Migrations from "@slipway/postgres/Migrations"
import * as WorkerOffers from "@slipway/postgres/workers/WorkerOffers"
import { Effect, Redacted } from "effect"
import { randomBytes } from "node:crypto"
import { chmodSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import path from "node:path"
import { folder, repository, run, runIn, serve, until, worker } from "../SlipwayProcess.ts"

const LONG = 300_000

const KEY = "canary-of-a-provider-key-7Qm2"

/** An agent in the place of opencode: each prompt becomes one request to its model, and the answer its message. */
const AGENT = `#!${process.execPath}
const { options } = JSON.parse(process.env.OPENCODE_CONFIG_CONTENT).provider.gateway
const model = JSON.parse(process.env.OPENCODE_CONFIG_CONTENT).model.replace("gateway/", "")
const send = (frame) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...frame }) + "\\n")
const answers = {
  initialize: () => ({ protocolVersion: 1, agentCapabilities: {} }),
  "session/new": () => ({
    sessionId: "one",
    configOptions: [{ id: "effort", category: "thought_level", type: "select", name: "Effort", currentValue: "default", options: [] }]
  }),
  "session/set_config_option": () => ({ configOptions: [] }),
  "session/prompt": async ({ prompt, sessionId }) => {
    const response = await fetch(options.baseURL + "/chat/completions", {
      method: "POST",
      headers: { authorization: "Bearer " + options.apiKey, "content-type": "application/json" },
      body: JSON.stringify({ model, messages: [{ role: "user", content: prompt[0].text }] })
    })
    const { choices: [{ message }] } = await response.json()
    const text = message.content + " env:" + JSON.stringify(process.env)
    const update = { sessionUpdate: "agent_message_chunk", content: { type: "text", text } }
    send({ method: "session/update", params: { sessionId, update } })
    return { stopReason: "end_turn" }
  }
}
require("node:readline").createInterface({ input: process.stdin }).on("line", async (line) => {
  const { id, method, params } = JSON.parse(line)
  if (id !== undefined && method in answers) send({ id, result: await answers[method](params) })
})
`

/** As the installer leaves it. */
const install = (dataDir: string) => {
  const program = profiles["opencode"]?.program ?? assert.fail()
  const modules = path.join(Installed.folderIn(dataDir), "node_modules")
  const binary = path.join(modules, program.binaries(Installed.thisPlatform())[0] ?? "")
  mkdirSync(path.dirname(binary), { recursive: true })
  mkdirSync(path.join(modules, program.package), { recursive: true })
  writeFileSync(path.join(modules, program.package, "package.json"), JSON.stringify({ version: program.version }))
  writeFileSync(binary, AGENT)
  chmodSync(binary, 0o755)
}

it.live(
  "a running service gets a model by one command, and runs a turn with it; the provider alone gets the key",
  () =>
    Effect.gen(function*() {
      const upstream = yield* FakeModel.start({ token: KEY })
      const data = yield* folder
      const server = yield* serve(data, { SLIPWAY_ISOLATION: "none" })
      const given = ["setup", "--provider", "compatible", "--base-url", `${upstream.url}/v1`, "--model", "qwen3"]

      // Whatever a script lacks is said before anything is stored.
      const cases: ReadonlyArray<readonly [ReadonlyArray<string>, RegExp]> = [
        [["setup"], /choose a provider: --provider anthropic, openai, xai, compatible/u],
        [["setup", "--provider", "anthropic", "--yes"], /a key is needed: --key-file FILE, or ANTHROPIC_API_KEY in the environment\./u],
        [["setup", "--provider", "compatible"], /an OpenAI-compatible server needs --base-url\./u],
        [["setup", "--provider", "xai", "--model", "grok-1"], /no model grok-1 of xAI\. There are: xai\/grok-4\.7, opencode\/grok-4\.7\./u],
        [["setup", "--provider", "xai", "--key", KEY], /A flag that it does not know\. A key is read from --key-file/u],
        [given, /nothing was stored\. opencode is not installed: repeat with --yes/u]
      ]
      for (const [args, said] of cases) {
        const ended = yield* run(data, args)
        assert.deepStrictEqual([ended.code, ended.stdout], [1, ""])
        assert.match(ended.stderr, said)
        assert.notInclude(ended.stderr, KEY)
      }
      assert.notInclude((yield* run(data, ["audit", "--json"])).stdout, "model_provider")

      // In place of a download of 350 MB.
      install(data)
      const set = yield* run(data, given, { OPENAI_API_KEY: KEY })
      assert.strictEqual(set.code, 0, set.stderr)
      // Nothing of this shell's isolation, which may be another one, and of a download.
      assert.match(set.stderr, /^slipway: the settings [^\n]+ encrypted\nslipway: opencode \S+ is there\n$/u)
      assert.match(set.stdout, /^compatible\/qwen3 is ready, and the default model\.\nThe running service uses it from now on\.$/mu)
      assert.match(set.stdout, /^Agents run as the service's user, without isolation \(SLIPWAY_ISOLATION=none\)\.$/mu)

      const listed = yield* run(data, ["models"])
      assert.match(listed.stdout, /^As the running service reports\.$/mu)
      assert.match(listed.stdout, /^compatible\/qwen3 +opencode +- +usable, the default$/mu)

      yield* run(data, ["repos", "add", "acme/shop", repository(data)])
      const turn = yield* runIn(data, ["run", "acme/shop", "[[say Hello from the upstream]]"], {
        SLIPWAY_API_KEY: server.key,
        SLIPWAY_URL: server.url
      })
      assert.strictEqual(turn.code, 0, turn.stderr)
      assert.include(turn.stdout, "Hello from the upstream")
      assert.deepStrictEqual(upstream.requests.map(({ call, status }) => [call.model, status]), [["qwen3", 200]])

      const audit = yield* run(data, ["audit", "--json"])
      assert.include(audit.stdout, "model_provider.set")
      const arguments_ = SpawnedProgram.commandLinesOf(data).join("\n")
      assert.include(arguments_, "serve")
      // The agent printed its whole environment.
      assert.include(turn.stdout, "OPENCODE_CONFIG_CONTENT")
      const everything = [server.output(), set.stdout, set.stderr, listed.stdout, turn.stdout, turn.stderr, audit.stdout, arguments_]
      for (const text of everything) assert.notInclude(text, KEY)
      // Files come and go while it runs.
      yield* server.stop("SIGTERM")
      const files = readdirSync(data, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
      const holding = files.filter((entry) => {
        const file = path.join(entry.parentPath, entry.name)
        return readFileSync(file).includes(KEY)
      })
      assert.deepStrictEqual(holding.map(({ name }) => name), [])
    }).pipe(Effect.scoped),
  LONG
)

it.live(
  "tells before the download that the service's agents cannot be isolated, and starts no agent that is there",
  () =>
    Effect.gen(function*() {
      const data = yield* folder
      const url = yield* TestPostgres.database(Migrations.layer)
      const problem = "The program bwrap is not installed."
      // A worker that reports what it lacks, while this shell runs agents without isolation.
      const unusable = [{ id: "compatible/qwen3", reason: "This service runs offline models only.", problems: [problem] }]
      yield* WorkerOffers.make.pipe(
        Effect.flatMap(({ publish }) => publish("w", { usable: [], unusable, isolation: { kind: "none", problem } })),
        Effect.provide(Database.layer({ url: Redacted.make(url) }))
      )
      const settings = { DATABASE_URL: url, SLIPWAY_ISOLATION: "none" }
      const given = ["setup", "--provider", "compatible", "--base-url", "http://127.0.0.1:9/v1", "--model", "qwen3"]
      const cannot = `Agents cannot be isolated on this machine, so only the offline model runs. ${problem} Then start Slipway again. ` +
        "Or start it with SLIPWAY_ISOLATION=none: agents then run as the service's user, with access to all its files."

      const refused = yield* run(data, given, settings)
      const nothing = "slipway: nothing was stored. opencode is not installed: repeat with --yes to install it."
      assert.deepStrictEqual([refused.code, refused.stderr.trimEnd().split("\n")], [1, [`slipway: ${cannot}`, nothing]])

      install(data)
      const set = yield* run(data, given, settings)
      assert.deepStrictEqual([set.code, set.stderr.trimEnd().split("\n")], [1, [
        `slipway: ${cannot}`,
        "slipway: the settings of OpenAI-compatible server are stored",
        `slipway: opencode ${profiles["opencode"]?.program?.version} is there`,
        `slipway: the settings are stored, but compatible/qwen3 cannot be used yet. ${cannot}`
      ]])
    }).pipe(Effect.scoped),
  LONG
)

it.live(
  "a provider that a program sets up at one process is used by the workers of others, and forgotten by them",
  () =>
    Effect.gen(function*() {
      const data = yield* folder
      install(data)
      const secrets = path.join(data, "given.key")
      writeFileSync(secrets, `${randomBytes(32).toString("base64")}\n`, { mode: 0o600 })
      const url = yield* TestPostgres.database(Migrations.layer)
      const settings = { DATABASE_URL: url, SLIPWAY_SECRETS_KEY_FILE: secrets }
      const server = yield* serve(data, { ...settings, SLIPWAY_ROLE: "http" })
      const one = yield* worker(data, url, { ...settings, SLIPWAY_ISOLATION: "none" })
      const minted = yield* run(data, ["keys", "create", "--grant", "operator", "--scopes", "models", "--key-only"], settings)
      const request = (address: string, method = "GET", body?: object) =>
        Effect.promise(async () => {
          const response = await fetch(`${server.url}/api/internal/v1/models${address}`, {
            method,
            headers: { authorization: `Bearer ${minted.stdout.trim()}`, "content-type": "application/json" },
            ...(body === undefined ? {} : { body: JSON.stringify(body) })
          })
          return { status: response.status, text: await response.text() }
        })
      const state = Effect.map(request(""), ({ text }) => {
        const found: { data: ReadonlyArray<{ id: string; usable: boolean; default: boolean }> } = JSON.parse(text)
        return found.data.find(({ id }) => id === "compatible/qwen3")
      })
      const set = yield* request("/providers/compatible", "PUT", {
        key: KEY,
        baseUrl: "http://127.0.0.1:9/v1",
        model: "qwen3",
        default: true
      })
      assert.strictEqual(set.status, 200, set.text)
      assert.deepInclude(yield* until(state, (found) => found?.usable === true), { default: true })
      yield* request("/providers/compatible", "DELETE")
      yield* until(state, (found) => found === undefined)
      for (const text of [set.text, server.output(), one.output()]) assert.notInclude(text, KEY)
    }).pipe(Effect.scoped),
  LONG
)
