import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import * as CiIssuer from "@slipway/oidc/testing/CiIssuer"
import * as OidcServer from "@slipway/oidc/testing/OidcServer"
import { Effect, Exit, Scope } from "effect"
import { execFileSync, spawn } from "node:child_process"
import { once } from "node:events"
import { cpSync, globSync, mkdirSync, readFileSync, symlinkSync, writeFileSync, writeSync } from "node:fs"
import path from "node:path"
import { text } from "node:stream/consumers"
import { environment, folder, repository, runIn, serve, type Server } from "../commands/SlipwayProcess.ts"
import { type Block, blocksOf, commandsOf, isShell, missingOf, strayCommandsOf } from "./Blocks.ts"

const root = path.resolve(import.meta.dirname, "../../../..")

/** Generated pages have examples of commands that belong to no page's story. */
const WRITTEN = ["docs/cli.md", "docs/errors.md", "docs/events.md", "docs/settings.md"]
const pages = ["README.md", "SECURITY.md",
  ...globSync(["docs/*.md", "docs/!(site)/*.md"], { cwd: root }).filter((page) => !WRITTEN.includes(page)).sort()]

/** Commands that are run once, before any page, and their tests. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  "npm ci": ".ci/run",
  "npm run demo": ".ci/run",
  "npm run check": ".ci/run",
  "npm test": ".ci/run",
  "npm start": "the server of this suite"
}
const elsewhere = (command: string) => ELSEWHERE[command.replace(/ +#.*$/u, "")]

const blocks = pages.flatMap((page) => blocksOf(page, readFileSync(path.join(root, page), "utf8")))
const reasonOf = ({ mark }: Block): string | undefined => /^no-run: (.+)$/u.exec(mark)?.[1]
const endOf = ({ mark }: Block): string | undefined => /^until "(.+)"$/u.exec(mark)?.[1]

const scope = Effect.runSync(Scope.make())
const ran: Array<string> = []

interface World {
  readonly at: string
  readonly server: Server
  readonly env: Readonly<Record<string, string | undefined>>
  /** Places of a page, which are somebody's machine, as they are here. */
  readonly here: (text: string) => string
}
let world: World

const commit = (at: string, message: string) => {
  execFileSync("git", ["add", "--all"], { cwd: at })
  execFileSync("git", ["-c", "user.name=Ada", "-c", "user.email=ada@shop.invalid", "commit", "--quiet", "--message", message], { cwd: at })
}

/** A machine as pages take it to be: a server, a checkout of `acme/shop`, and the command. */
const begin = Effect.gen(function*() {
  const at = yield* folder
  for (const name of ["bin", "src", "etc", "data", "backups"]) mkdirSync(path.join(at, name))
  const dataDir = path.join(at, "data")
  const shop = repository(path.join(at, "src"))
  const manifest = { name: "shop", version: "1.0.0" }
  writeFileSync(path.join(shop, "package.json"), JSON.stringify(manifest))
  writeFileSync(path.join(shop, "package-lock.json"), JSON.stringify({ ...manifest, lockfileVersion: 3, packages: { "": manifest } }))
  writeFileSync(path.join(shop, ".gitignore"), "node_modules\n")
  commit(shop, "Packages")
  symlinkSync(path.join(root, "packages/slipway/bin/slipway.js"), path.join(at, "bin/slipway"))
  const ci = yield* CiIssuer.start
  const server = yield* serve(dataDir, { SLIPWAY_WEBHOOK_PRIVATE: "true", SLIPWAY_CI_PRIVATE: ci.destination })
  const provider = yield* OidcServer.start({ redirectUri: `${server.url}/sign-in/oidc/callback` })
  writeFileSync(path.join(at, "etc/oidc-client-secret"), provider.clientSecret)
  // For the commands of the page that checks the settings: the server has no need of them.
  const signIn = {
    SLIPWAY_OIDC_ISSUER: provider.issuer,
    SLIPWAY_OIDC_CLIENT_ID: provider.clientId,
    SLIPWAY_OIDC_CLIENT_SECRET_FILE: path.join(at, "etc/oidc-client-secret"),
    SLIPWAY_PUBLIC_URL: server.url
  }
  const run = { project_path: "acme/web", ref: "main", ref_type: "branch", job_id: "7" }
  const token = CiIssuer.tokenOf(ci.key, CiIssuer.claimsOf(ci.issuer, Math.floor(Date.now() / 1000), { ...run, aud: server.url }))
  const settings = {
    ...environment(dataDir, signIn),
    SLIPWAY_TOKEN: token,
    HOME: at,
    PATH: `${path.join(at, "bin")}:${process.env["PATH"]}`
  }
  const key = (yield* runIn(dataDir, ["keys", "create", "--grant", "acme", "--scopes", "sandboxes,webhooks", "--key-only"])).stdout.trim()
  assert.strictEqual((yield* runIn(dataDir, ["repos", "add", "acme/shop", shop])).code, 0)
  const here = (text: string) =>
    [["http://127.0.0.1:4000", server.url], ["https://slipway.example", server.url], ["https://gitlab.example.com", ci.issuer], [
      "/etc/slipway",
      path.join(at, "etc")
    ], [
      "/var/lib/slipway",
      path.join(at, "restored")
    ], ["/backups", path.join(at, "backups")]].reduce(
      (result, [from = "", to = ""]) => result.replaceAll(from, to),
      text
    )
  return { at, server, here, env: { ...settings, SLIPWAY_URL: server.url, SLIPWAY_API_KEY: key } }
}).pipe(Scope.provide(scope))

beforeAll(async () => {
  world = await Effect.runPromise(begin)
})
afterAll(async () => {
  await Effect.runPromise(Scope.close(scope, Exit.void))
  const left = blocks.filter((block) => isShell(block) && reasonOf(block) !== undefined)
  const count = (of: ReadonlyArray<Block>) => of.flatMap(commandsOf).length
  const given = Object.entries(ELSEWHERE).map(([command, where]) => `${command} (${where})`)
  const lines = [
    `${ran.length} commands of ${pages.length} pages ran as they are written; ${count(left)} were left out:`,
    `  before any page: ${given.join(", ")}`,
    ...left.map((block) => `  ${block.page}:${block.line} (${count([block])}) ${reasonOf(block)}`)
  ]
  // Past the reporter, which shows what a test says only when it fails.
  writeSync(1, `\n${lines.join("\n")}\n`)
})

/** An endless command is ended when it has said `wanted`. */
const endless = (text: string, wanted: string, file: string) =>
  `{\n${text}} > '${file}' 2>&1 & P=$!\nuntil grep -qF '${wanted}' '${file}'; do kill -0 $P; sleep 0.1; done\n` +
  `pkill -P $P; wait $P || true\ncat '${file}'\n`

/** Servers of this process answer meanwhile. */
const shell = async (script: string, cwd: string) => {
  const child = spawn("bash", [script], { cwd, env: world.env, stdio: ["ignore", "pipe", "pipe"] })
  const [stdout, stderr, [status]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "close")])
  return { status, stdout, stderr }
}

const marker = (index: number) => `@@ block ${index}`

describe("pages for users", () => {
  it("have commands in blocks of sh alone, with a reason where one is not run", () => {
    assert.deepStrictEqual(blocks.flatMap((block) => strayCommandsOf(block).map((line) => `${block.page}:${block.line}: ${line}`)), [])
    const known = (block: Block) => block.mark === "" || reasonOf(block) !== undefined || endOf(block) !== undefined
    assert.deepStrictEqual(
      blocks.filter((block) => isShell(block) && !known(block)).map(({ line, mark, page }) => `${page}:${line}: ${mark}`),
      []
    )
  })

  it("say of each alert what to do", () => {
    const rules = readFileSync(path.join(root, "deploy/prometheus/slipway.rules.yml"), "utf8")
    const alerts = Array.from(rules.matchAll(/- alert: (\w+)/gu), ([, name = ""]) => name)
    const told = readFileSync(path.join(root, "docs/operating/observe.md"), "utf8")
    assert.isAbove(alerts.length, 9)
    assert.deepStrictEqual(alerts.filter((name) => !told.includes(`| \`${name}\` |`)), [])
  })

  for (const page of pages) {
    const own = blocks.filter((block) => block.page === page)
    const run = own.filter((block) => isShell(block) && reasonOf(block) === undefined && !commandsOf(block).every(elsewhere))
    if (run.length === 0) continue
    it(`${page} does what it says`, async () => {
      const cwd = path.join(world.at, page.replaceAll(/\W/gu, "-"))
      cpSync(path.join(world.at, "src/shop"), cwd, { recursive: true })
      const files = own.filter(({ language, mark }) => language === "json" && mark.endsWith(".json"))
      for (const { mark, text } of files) {
        mkdirSync(path.join(cwd, path.dirname(mark)), { recursive: true })
        writeFileSync(path.join(cwd, mark), text)
      }
      if (files.length > 0) commit(cwd, "Files of the page")
      mkdirSync(path.join(cwd, "node_modules/.bin"), { recursive: true })
      symlinkSync(path.join(world.at, "bin/slipway"), path.join(cwd, "node_modules/.bin/slipway"))
      writeFileSync(path.join(cwd, "deploy.key"), "an unused key\n")
      const script = path.join(world.at, `${path.basename(cwd)}.sh`)
      writeFileSync(
        script,
        ["set -e", ...run.flatMap((block, index) => {
          const [wanted, text] = [endOf(block), world.here(block.text)]
          return [`echo '${marker(index)}'`, wanted === undefined ? text : endless(text, wanted, `${script}.${index}`)]
        }), `echo '${marker(run.length)}'`, ""].join("\n")
      )
      const { status, stderr, stdout } = await shell(script, cwd)
      assert.strictEqual(status, 0, `${stdout}\n${stderr}`)
      for (const [index, block] of run.entries()) {
        const said = stdout.slice(stdout.indexOf(marker(index)) + marker(index).length, stdout.indexOf(marker(index + 1)))
        assert.notMatch(said, /^\{"error":/mu, `${page}:${block.line}: curl is content with a refusal, readers are not`)
        ran.push(...commandsOf(block))
        const stated = own[own.indexOf(block) + 1]
        if (stated?.mark !== "output") continue
        assert.deepStrictEqual(missingOf(stated, said), [], `${page}:${stated.line} is not what ${block.text} says:\n${said}`)
      }
    })
  }
})
