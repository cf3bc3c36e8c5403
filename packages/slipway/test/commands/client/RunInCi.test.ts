/** `deploy/ci`: the action of GitHub and the template of GitLab, as their runners start them. */
import { assert, describe, expect, it } from "@effect/vitest"
import { SlipwayClient } from "@slipway/client"
import * as SpawnedProgram from "@slipway/machine/testing/SpawnedProgram"
import * as CiIssuer from "@slipway/oidc/testing/CiIssuer"
import { Clock, Effect } from "effect"
import { once } from "node:events"
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { createServer } from "node:http"
import path from "node:path"
import { parse, parseAllDocuments } from "yaml"
import { folder, repository, run, serve } from "../SlipwayProcess.ts"

const LONG = 180_000
const ci = path.resolve(import.meta.dirname, "../../../../../deploy/ci")
const program = readFileSync(path.join(ci, "run.mjs"), "utf8")
const template = readFileSync(path.join(ci, "gitlab.yml"), "utf8")

/** The source of OIDC tokens of a run on GitHub. */
const tokens = Effect.fnUntraced(function*(issuer: CiIssuer.CiIssuer, more: Readonly<Record<string, unknown>>) {
  const now = Math.floor((yield* Clock.currentTimeMillis) / 1000)
  const asked: Array<string | undefined> = []
  const server = createServer((request, response) => {
    asked.push(request.headers.authorization)
    const aud = new URL(request.url ?? "", "http://localhost").searchParams.get("audience")
    const value = CiIssuer.tokenOf(issuer.key, CiIssuer.claimsOf(issuer.issuer, now, { aud, ...more }))
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ value }))
  })
  yield* Effect.acquireRelease(
    Effect.promise(() => once(server.listen(0, "127.0.0.1"), "listening")),
    () => Effect.sync(() => server.close())
  )
  const address = server.address()
  return { asked, url: `http://127.0.0.1:${typeof address === "object" ? address?.port : 0}/token?version=1` }
})

/** A service that trusts runs of `acme/shop`, and a key to look at it. */
const service = Effect.gen(function*() {
  const data = yield* folder
  const issuer = yield* CiIssuer.start
  const { key = "", url } = yield* serve(data, { SLIPWAY_CI_PRIVATE: issuer.destination, SLIPWAY_ISOLATION: "none" })
  yield* run(data, ["repos", "add", "acme/shop", repository(data)])
  const trust = (kind: string) => run(data, ["ci-trust", "add", kind, "acme/shop", "--branch", "main", "--issuer", issuer.issuer])
  const added = [yield* trust("github"), yield* trust("gitlab")]
  assert.deepStrictEqual(added.map(({ code }) => code), [0, 0], added.map(({ stderr }) => stderr).join(""))
  return { data, issuer, url, client: new SlipwayClient({ baseUrl: url, apiKey: key }) }
})

type World = Effect.Success<typeof service>

/** The variables of a step on GitHub. */
const variables = ({ data, url }: World, source: { readonly url: string }) => ({
  PATH: process.env["PATH"],
  GITHUB_ACTIONS: "true",
  GITHUB_REPOSITORY: "acme/shop",
  GITHUB_RUN_ID: "4711",
  GITHUB_RUN_ATTEMPT: "1",
  GITHUB_JOB: "agent",
  GITHUB_ACTION: "slipway",
  GITHUB_STEP_SUMMARY: path.join(data, "summary.md"),
  GITHUB_OUTPUT: path.join(data, "outputs"),
  ACTIONS_ID_TOKEN_REQUEST_URL: source.url,
  ACTIONS_ID_TOKEN_REQUEST_TOKEN: "request-token",
  SLIPWAY_URL: url
})

const inAction = Effect.fnUntraced(function*(
  world: World,
  source: { readonly url: string },
  more: Readonly<Record<string, string>>,
  at = path.join(ci, "run.mjs")
) {
  const env = variables(world, source)
  const ended = yield* SpawnedProgram.run(process.execPath, [at], { env: { ...env, ...more } })
  const read = (file: string) => existsSync(file) ? readFileSync(file, "utf8") : ""
  return { ...ended, summary: read(env.GITHUB_STEP_SUMMARY), outputs: read(env.GITHUB_OUTPUT) }
})

describe("deploy/ci", () => {
  it.live(
    "publishes what an agent did in a run of GitHub Actions, with a summary, and takes no text of an agent for a command of the runner",
    () =>
      Effect.gen(function*() {
        const world = yield* service
        const source = yield* tokens(world.issuer, { repository: "acme/shop" })
        const hostile = "[[say Done ```|<b> ::set-output name=x::y]] [[write path=::error::a.md content=one]]"
        const { code, outputs, stderr, stdout, summary } = yield* inAction(world, source, {
          SLIPWAY_PROMPT: hostile,
          SLIPWAY_TITLE: "From CI"
        })
        assert.deepStrictEqual([code, stderr], [0, ""], stdout)
        assert.deepStrictEqual(source.asked, ["Bearer request-token"])
        const [sandbox] = (yield* Effect.promise(() => world.client.listSandboxes())).data
        const pull = /^pull-request=(http\S+)$/mu.exec(outputs)?.[1] ?? ""
        assert.match(pull, /\/pulls\/1$/u)
        assert.include(outputs, `sandbox-id=${sandbox?.id}\n`)
        assert.include(outputs, "state=succeeded\n")
        assert.include(stdout, `Draft pull request: ${pull}`)
        assert.match(stdout, /^Tool: .*: :error: :a\.md/mu)
        assert.deepStrictEqual(stdout.split("\n").filter((text) => text.includes("::")).length, 1, stdout)
        const [, key = "none"] = /^::add-mask::(sbx_live_\S+)$/mu.exec(stdout) ?? []
        assert.strictEqual(stdout.split(key).length, 2)
        assert.notInclude(summary + outputs, key)
        assert.include(summary, `| Pull request | [#1](${pull}), +1 −0 |`)
        assert.include(summary, "````text\nDone ```|<b> ::set-output name=x::y")

        // A repeated step finds its sandbox.
        yield* inAction(world, source, { SLIPWAY_PROMPT: hostile, SLIPWAY_TITLE: "From CI" })
        assert.lengthOf((yield* Effect.promise(() => world.client.listSandboxes())).data, 1)

        const failed = yield* inAction(world, source, { SLIPWAY_PROMPT: "[[error no luck]]", SLIPWAY_END: "true" })
        assert.strictEqual(failed.code, 1)
        assert.match(failed.stdout, /^::error::The turn ended as failed\. See http/mu)
        assert.match((yield* Effect.promise(() => world.client.listSandboxes())).data[0]?.status ?? "", /^terminat/u)
      }),
    LONG
  )

  it.live("reads more events than a page has, and takes a new key before one expires", () =>
    Effect.gen(function*() {
      const world = yield* service
      const source = yield* tokens(world.issuer, { repository: "acme/shop" })
      // With keys that last a moment, each request takes a new one.
      const quick = program.replace("const KEY_LASTS = 8 * 60_000", "const KEY_LASTS = -1").replace("const LOOK = 3000", "const LOOK = 100")
      assert.notStrictEqual(quick, program)
      const at = path.join(world.data, "run.mjs")
      writeFileSync(at, quick)
      const prompt = `${Array.from({ length: 36 }, (_, n) => `[[shell echo ${n}]]`).join(" ")} [[say At last]]`
      const { code, outputs, stdout, summary } = yield* inAction(world, source, { SLIPWAY_PROMPT: prompt }, at)
      assert.strictEqual(code, 0, stdout)
      assert.include(summary, "At last")
      const keys = new Set(Array.from(stdout.matchAll(/^::add-mask::(\S+)$/gmu), ([, key]) => key))
      // Creation, two pages of events or more, the publication and the last look.
      assert.isAtLeast(keys.size, 5, stdout)
      assert.strictEqual(keys.size, source.asked.length)
      const [, id = ""] = /^sandbox-id=(\S+)$/mu.exec(outputs) ?? []
      const events = yield* Effect.promise(() => world.client.listEvents(id, { after: 100 }))
      assert.isNotEmpty(events.data)
    }), LONG)

  it.live("ends the sandbox of a job that is cancelled", () =>
    Effect.gen(function*() {
      const world = yield* service
      const source = yield* tokens(world.issuer, { repository: "acme/shop" })
      const job = yield* Effect.acquireRelease(
        Effect.sync(() =>
          SpawnedProgram.start(process.execPath, [path.join(ci, "run.mjs")], {
            env: { ...variables(world, source), SLIPWAY_PROMPT: "[[shell sleep 100]]" }
          })
        ),
        ({ kill }) => Effect.promise(kill)
      )
      const id = yield* Effect.promise(() => job.says((output) => /^Sandbox (c_\w+):/mu.exec(output)?.[1]))
      assert.deepStrictEqual(yield* Effect.promise(() => job.stop("SIGTERM")), { code: 130, signal: null })
      const { status } = yield* Effect.promise(() => world.client.getSandbox(id))
      assert.match(status, /^terminat/u)
    }), LONG)

  it.live("says what to do where a run gets no key, or lacks a variable", () =>
    Effect.gen(function*() {
      const world = yield* service
      const stranger = yield* tokens(world.issuer, { repository: "acme/other" })
      const cases: ReadonlyArray<readonly [more: Readonly<Record<string, string>>, says: RegExp]> = [
        [{ SLIPWAY_PROMPT: "x" }, /^::error::The server gives this run no key: .*slipway ci-trust add$/mu],
        [{}, /^::error::SLIPWAY_PROMPT is missing/mu],
        [{ SLIPWAY_PROMPT: "x", ACTIONS_ID_TOKEN_REQUEST_URL: "" }, /give the job the permission `id-token: write`/u],
        [{ SLIPWAY_PROMPT: "x", SLIPWAY_URL: "ftp://x" }, /is not an address/u],
        [{ SLIPWAY_PROMPT: "x", SLIPWAY_BUDGET_USD: "much" }, /an amount in US dollars/u]
      ]
      for (const [more, says] of cases) {
        const { code, stdout } = yield* inAction(world, stranger, more)
        assert.strictEqual(code, 1)
        assert.match(stdout, says)
      }
      assert.lengthOf((yield* Effect.promise(() => world.client.listSandboxes())).data, 0)
    }), LONG)

  it("has the same program in the template of GitLab", async () => {
    const [before = "", rest = ""] = template.split(/(?<=<<'RUN_MJS'\n)/u)
    const after = rest.slice(rest.indexOf("      RUN_MJS\n"))
    const indented = program.replaceAll(/^(?=.)/gmu, "      ")
    await expect(before + indented + after).toMatchFileSnapshot(path.join(ci, "gitlab.yml"))
  })

  it.live("publishes what an agent did in a job of GitLab CI", () =>
    Effect.gen(function*() {
      const { client, data, issuer, url } = yield* service
      const [spec, jobs] = parseAllDocuments(template).map((document) => document.toJS())
      const given: Readonly<Record<string, string>> = { url, prompt: "[[write path=b.md content=two]]", repo: "acme/shop" }
      // As GitLab fills in the inputs of an included file.
      const filled = JSON.stringify(jobs).replaceAll(
        /\$\[\[ inputs\.([\w-]+) \]\]/gu,
        (_, name: string) => given[name] ?? String(spec.spec.inputs[name].default)
      )
      const { slipway } = parse(filled)
      const now = Math.floor((yield* Clock.currentTimeMillis) / 1000)
      const claims = { project_path: "acme/shop", ref: "main", ref_type: "branch", job_id: "7", repository: undefined }
      const aud = slipway.id_tokens.SLIPWAY_ID_TOKEN.aud
      const token = CiIssuer.tokenOf(issuer.key, CiIssuer.claimsOf(issuer.issuer, now, { ...claims, aud }))
      const ended = yield* SpawnedProgram.run("sh", ["-e", "-c", slipway.script.join("\n")], {
        env: { PATH: process.env["PATH"], CI_PROJECT_ID: "1", CI_JOB_ID: "7", SLIPWAY_ID_TOKEN: token, ...slipway.variables },
        cwd: data
      })
      assert.deepStrictEqual([ended.code, ended.stderr], [0, ""], ended.stdout)
      const [sandbox] = (yield* Effect.promise(() => client.listSandboxes())).data
      const dotenv = readFileSync(path.join(data, slipway.artifacts.reports.dotenv), "utf8")
      assert.match(dotenv, new RegExp(`^SLIPWAY_SANDBOX_ID=${sandbox?.id}\nSLIPWAY_PULL_REQUEST=http\\S+/pulls/1\n$`, "u"))
      assert.notInclude(ended.stdout, "sbx_live_")
    }), LONG)
})
