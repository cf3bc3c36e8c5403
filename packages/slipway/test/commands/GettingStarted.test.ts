/** The commands of the first pages, run as they are written, in a folder like a fresh clone. */
import { assert, describe, it } from "@effect/vitest"
import * as SpawnedProgram from "@slipway/machine/testing/SpawnedProgram"
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import { cpSync, existsSync, mkdirSync, readFileSync, symlinkSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { folder, freePort, until } from "./SlipwayProcess.ts"

const root = path.resolve(import.meta.dirname, "../../../..")

/** The blocks of shell commands of a page that a reader can run without anything else. */
const blocks = (page: string): ReadonlyArray<string> =>
  [...readFileSync(path.join(root, page), "utf8").matchAll(/^```sh(?! no-run)[^\n]*\n(.*?)^```$/gmsu)].map(([, block = ""]) => block)

/** The files of this repository that git knows, with the packages that `npm ci` would bring. */
const clone = (at: string) => {
  mkdirSync(at)
  const files = execFileSync("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard"], { cwd: root, maxBuffer: 2 ** 26 })
    .toString().split("\0")
  for (const file of files.filter((name) => name !== "" && existsSync(path.join(root, name)))) {
    cpSync(path.join(root, file), path.join(at, file))
  }
  symlinkSync(path.join(root, "node_modules"), path.join(at, "node_modules"))
  for (const name of ["domain", "adapters", "worker", "http"]) {
    const packages = path.join(root, "packages", name, "node_modules")
    if (existsSync(packages)) symlinkSync(packages, path.join(at, "packages", name, "node_modules"))
  }
}

/** A terminal: commands are typed into it, what they say is read. */
const terminal = (cwd: string, env: Readonly<Record<string, string | undefined>>) =>
  Effect.map(SpawnedProgram.scoped("bash", ["--norc"], { cwd, env }), ({ child: { stdin }, output: said }) => {
    let count = 0
    return {
      said,
      start: (command: string) => stdin.write(command),
      /** Types a command and waits for its end. An endless command is ended when it has said `leave`. */
      type: Effect.fnUntraced(function*(command: string, leave?: RegExp) {
        const before = said().length
        const mark = `done-${++count}`
        const output = Effect.sync(() => said().slice(before))
        stdin.write(
          leave === undefined
            ? `${command}\necho "${mark} $?"\n`
            : `(exec ${command.trim()}) & echo "pid $!"\nwait $!\necho "${mark} 0"\n`
        )
        if (leave !== undefined) {
          const text = yield* until(output, (text) => leave.test(text))
          process.kill(Number(/^pid (\d+)$/mu.exec(text)?.[1]))
        }
        const text = yield* until(output, (text) => text.includes(`${mark} `))
        return { code: Number(new RegExp(`${mark} (\\d+)`, "u").exec(text)?.[1] ?? 0), text: text.slice(0, text.indexOf(mark)) }
      })
    }
  })

describe("the first pages", () => {
  it("the README begins with the three commands, which .ci/run runs on a clean checkout", () => {
    assert.strictEqual(blocks("README.md")[0], "npm ci\nnpm run demo\nnpm test\n")
    const ci = readFileSync(path.join(root, ".ci/run"), "utf8")
    for (const command of ["npm ci", "npm run demo", "npm test"]) assert.match(ci, new RegExp(`^\\$bare ${command}\\b`, "mu"))
  })

  it.live(
    "getting started works as it is written: a server, a sandbox, its events, a pull request that is merged",
    () =>
      Effect.gen(function*() {
        const home = yield* folder
        const at = path.join(home, "slipway")
        clone(at)
        const port = yield* freePort
        const env = { PATH: process.env["PATH"], HOME: home, TMPDIR: tmpdir(), SLIPWAY_PORT: String(port) }
        // Only the port differs, so that this test disturbs no running server.
        const [install = "", prepare = "", command = "", create = "", watch = "", publish = "", end = "", ...others] = blocks(
          "docs/getting-started.md"
        )
          .map((block) => block.replaceAll("127.0.0.1:4000", `127.0.0.1:${port}`))
        assert.strictEqual(install, "npm ci\nnpm start\n")
        assert.strictEqual(others.length, 1, "a new block needs a place in this test")

        const first = yield* terminal(at, env)
        first.start("npm start\n")
        yield* until(Effect.sync(first.said), (said) => /^isolation/mu.test(said))

        const second = yield* terminal(at, env)
        const said = Effect.fnUntraced(function*(block: string, leave?: RegExp) {
          const { code, text } = yield* second.type(block, leave)
          assert.strictEqual(code, 0, `${block}\n${text}`)
          return text
        })
        assert.include(yield* said(prepare), "sample/shop is ")
        const commanded = yield* said(command)
        assert.match(commanded, /^http\S+\/local\/sample\/shop\/pulls\/1$/mu)
        assert.include(commanded, "+Hi")
        assert.match(yield* said(create), /\/sandboxes\/c_[a-z2-9]{12}$/mu)
        yield* said(watch, /"type":"turn\.completed"/u)
        const published = yield* said(publish)
        assert.include(published, "+Hello")
        assert.include(published, "Merged sample/shop #2 into main, with the files in ")
        assert.strictEqual(readFileSync(path.join(at, ".slipway/sample/shop/HELLO.md"), "utf8").trim(), "Hello")
        assert.include(yield* said(end), "\"outcome\":\"applied\"")
      }).pipe(Effect.scoped)
  )
})
