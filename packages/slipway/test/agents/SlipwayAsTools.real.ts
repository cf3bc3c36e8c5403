/**
 * Real agents as clients of Slipway's MCP server, configured as docs/mcp-server.md says: each creates a sandbox, waits for it, looks at it
 * reads an artifact and says what came of it. A scripted model decides which tools they call.
 */
import { assert, describe, layer } from "@effect/vitest"
import * as Installed from "@slipway/agents/Installed"
import { profiles } from "@slipway/agents/profiles/AgentRuntimeProfiles"
import { calling, fromResults } from "@slipway/agents/testing/fake-model/Directives"
import * as FakeModel from "@slipway/agents/testing/fake-model/FakeModel"
import type { Box } from "@slipway/domain/sandbox/ports/SandboxHost"
import * as SpawnedProgram from "@slipway/machine/testing/SpawnedProgram"
import { Context, Effect, Layer, Redacted } from "effect"
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import path from "node:path"
import * as StoredKeys from "../../src/commands/client/server/StoredKeys.ts"
import { command, folder, repository, run, serve } from "../commands/SlipwayProcess.ts"
import { blocksOf } from "../docs/Blocks.ts"
import { agentsFolder, freshToken } from "./real/RealAgent.ts"

const LONG = 300_000

const PAGE = path.resolve(import.meta.dirname, "../../../../docs/mcp-server.md")

/** An agent's command line, as a person runs it once for a prompt. */
interface Client {
  /** The heading of its configuration in the page. */
  readonly heading: string
  /** Its name for a tool of the server `slipway`, and the call's arguments. */
  readonly call: (tool: string, given: object) => string
  /** The file below the home that the configuration belongs to; absent: the configuration is a command. */
  readonly file?: string
  readonly args: (prompt: string) => ReadonlyArray<string>
  readonly env?: Readonly<Record<string, string>>
  /** It takes the prompt from its standard input. */
  readonly readsInput?: true
  /** It begins before a command has told its tools, and hears of them later. */
  readonly waits?: true
}

/** codex asks no person here. */
const ALLOWED = ["create_sandbox", "send_message"].flatMap((tool) => [
  "--config",
  `mcp_servers.slipway.tools.${tool}.approval_mode="approve"`
])

const clients: Readonly<Record<string, Client>> = {
  claude: {
    heading: "Claude Code",
    call: (tool, given) => calling(`mcp__slipway__${tool}`, given),
    args: (prompt) => ["-p", prompt, "--model", "claude-opus-5-5", "--allowed-tools", "mcp__slipway"],
    // Otherwise a prompt begins before the command has answered.
    env: { ENABLE_TOOL_SEARCH: "false", MCP_CONNECTION_NONBLOCKING: "false" }
  },
  codex: {
    heading: "Codex",
    call: calling,
    file: ".codex/config.toml",
    args: (prompt) => ["exec", "--skip-git-repo-check", ...ALLOWED, prompt]
  },
  grok: {
    heading: "Grok",
    call: (tool, given) => calling("use_tool", { tool_name: `slipway__${tool}`, tool_input: given }),
    args: (prompt) => ["--no-auto-update", "-p", prompt, "-m", "fake-model", "--always-approve"],
    waits: true
  },
  opencode: {
    heading: "opencode",
    call: (tool, given) => calling(`slipway_${tool}`, given),
    file: ".config/opencode/opencode.json",
    args: () => ["run"],
    // It quotes a prompt in its arguments.
    readsInput: true
  }
}

/** The first block below a heading of the page is for the address, the second one for the command. */
const configurationOf = (heading: string, transport: "http" | "stdio", url: string): string => {
  const section = readFileSync(PAGE, "utf8").split(/^## /mu).find((part) => part.startsWith(`${heading}\n`)) ?? ""
  const block = blocksOf(PAGE, section)[transport === "http" ? 0 : 1]
  assert.isDefined(block, `${heading}: ${transport}`)
  const text = block.text.replaceAll("https://slipway.example", url)
  assert.include(text, url)
  return text
}

const program = (name: string) =>
  profiles[name] === undefined
    ? Effect.succeed(null)
    : Effect.map(
      Installed.inspect(name, profiles[name], agentsFolder),
      (found) => found.state === "ready" ? { command: found.command, version: found.version } : null
    )

/** The agent in a home of its own, with its model and no servers. */
const settled = Effect.fnUntraced(function*(name: string, file: string) {
  const home = yield* folder
  const workspace = path.join(home, "work")
  const token = freshToken()
  const model = yield* FakeModel.start({ token, workspace: { path: workspace, repositories: [{ name: "acme/shop", folder: "." }] } })
  const access = {
    baseUrl: model.url,
    token: Redacted.make(token),
    model: name === "claude" ? "claude-opus-5-5" : "fake-model",
    contextTokens: 128_000,
    outputTokens: 8_192
  }
  const launch = profiles[name]?.launch({
    access,
    // It is asked for its paths alone.
    box: { home, workspace } as Box,
    repositories: [],
    instructions: null,
    toolApprovalMode: "auto",
    profile: name,
    model: "test/model",
    reasoningEffort: null,
    resume: null
  }, file)
  mkdirSync(workspace)
  for (const [to, text] of Object.entries(launch?.homeFiles ?? {})) {
    mkdirSync(path.dirname(path.join(home, to)), { recursive: true })
    writeFileSync(path.join(home, to), text)
  }
  return { home, workspace, model, env: launch?.env ?? {} }
})

/** One service for all agents, with a repository. */
class Service extends Context.Service<Service, { readonly url: string; readonly key: string }>()("slipway/test/Service") {
  static readonly layer = Layer.effect(
    Service,
    Effect.gen(function*() {
      const data = yield* folder
      const { key = "", url } = yield* serve(data)
      yield* run(data, ["repos", "add", "acme/shop", repository(data)])
      return { url, key }
    })
  )
}

/** The file below the home with the answers of `slipway mcp-server`. */
const ANSWERS = "answers.jsonl"

/** The command `slipway` in a folder for the path. */
const installed = (home: string) => {
  const bin = path.join(home, "bin")
  mkdirSync(bin)
  const file = path.join(bin, "slipway")
  writeFileSync(file, `#!/bin/sh\n'${process.execPath}' '${command}' "$@" | tee '${path.join(home, ANSWERS)}'\n`)
  chmodSync(file, 0o755)
  return `${bin}:${process.env["PATH"]}`
}

const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="

/** So that the image is nowhere in the prompt. */
const rot13 = (text: string) =>
  text.replaceAll(/[a-z]/giu, (letter) => String.fromCharCode(letter.charCodeAt(0) + (letter.toLowerCase() < "n" ? 13 : -13)))

/** The prompt for the sandbox, and a sentence of its agent that no script of the client has. */
const DRAW = `echo ${rot13(PNG)} | tr A-Za-z N-ZA-Mn-za-m | base64 -d > "$SLIPWAY_ARTIFACTS/dot.png"`
const PROMPT = `[[shell ${DRAW}]] [[say The shop has 7 files]]`
const REPORTED = fromResults("shop has \\d files")

/** The directives of the prompt. A second turn begins only when the artifacts of the first one are stored. */
const scriptOf = (call: Client["call"], name: string): string => {
  const sandboxId = fromResults("c_\\w{12}")
  return [
    call("create_sandbox", { repos: [{ fullName: "acme/shop" }], prompt: PROMPT, title: `Made by ${name}` }),
    call("wait_for_sandbox", { sandboxId, timeoutSeconds: 100 }),
    call("send_message", { sandboxId, text: "[[say Done]]" }),
    call("wait_for_sandbox", { sandboxId, timeoutSeconds: 100 }),
    call("get_sandbox", { sandboxId }),
    call("read_artifact", { sandboxId, name: "dot.png" }),
    `[[say Its agent says: ${REPORTED}]]`
  ].join(" ")
}

const found = new Map<string, Effect.Success<ReturnType<typeof program>>>()
for (const name of Object.keys(clients)) found.set(name, await Effect.runPromise(program(name)))

layer(Service.layer, { excludeTestServices: true, timeout: LONG })("Slipway's MCP server", (it) => {
  for (const [name, { args, call, env: more = {}, file, heading, readsInput, waits }] of Object.entries(clients)) {
    describe.skipIf(found.get(name) === null)(`with ${name} (needs ${name}: npm run agents:install)`, () => {
      const program = found.get(name)?.command ?? ""
      for (const transport of ["http", "stdio"] as const) {
        it.effect(`gives ${name} a sandbox over ${transport}, its reply and its artifacts`, () =>
          Effect.gen(function*() {
            const { key, url } = yield* Service
            const agent = yield* settled(name, program)
            const env = {
              ...agent.env,
              ...more,
              HOME: agent.home,
              PATH: installed(agent.home),
              ...(transport === "http" ? { SLIPWAY_API_KEY: key } : {})
            }
            // As `slipway auth login` does.
            if (transport === "stdio") {
              StoredKeys.change(path.join(agent.home, ".config/slipway/credentials.json"), () => ({ servers: { [url]: { key } } }))
            }
            const execute = (program: string, args: ReadonlyArray<string>, input = "") =>
              SpawnedProgram.run(program, args, { cwd: agent.workspace, env, input })
            const configuration = configurationOf(heading, transport, url)
            if (file === undefined) {
              const added = yield* execute("/bin/sh", ["-ec", configuration.replace(/^\w+ /mu, `'${program}' `)])
              assert.strictEqual(added.code, 0, added.stderr)
            } else {
              const to = path.join(agent.home, file)
              mkdirSync(path.dirname(to), { recursive: true })
              writeFileSync(to, configuration, { flag: "a" })
            }
            const answers = path.join(agent.home, ANSWERS)
            const answered = `[[shell until grep -q '"tools":' '${answers}'; do sleep 0.1; done]]`
            const first = waits === true && transport === "stdio" ? answered : ""
            const script = `${first} ${scriptOf(call, name)}`
            const ended = yield* execute(program, args(script), readsInput === true ? script : "")
            const asked = agent.model.requests.filter(({ call }) => !call.hidden)
            const results = asked.at(-1)?.call.results ?? []
            const all = `${ended.stdout}\n${ended.stderr}\n${JSON.stringify(results)}`
            assert.strictEqual(ended.code, 0, all)
            assert.include(ended.stdout, "Its agent says: shop has 7 files", all)
            assert.include(JSON.stringify(asked.at(-1)?.body), PNG, all)
          }), LONG)
      }
    })
  }
})
