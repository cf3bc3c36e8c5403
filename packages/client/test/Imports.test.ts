import { assert, describe, it } from "@effect/vitest"
import { execFile } from "node:child_process"
import { mkdtemp, readFile, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import path from "node:path"
import { pathToFileURL } from "node:url"
import { promisify } from "node:util"

const run = promisify(execFile)
const root = path.resolve(import.meta.dirname, "..")

/** The modules that a compiled module imports, in code and in types. */
const namesIn = (text: string): ReadonlyArray<string> =>
  [
    ...text.matchAll(/(?:\bfrom\s*|\bimport\s*\(?\s*|\brequire\s*\(\s*|reference (?:types|path)=)["']([^"']+)["']/gu)
  ].flatMap(([, name]) => name ?? [])

/** The addresses that a fresh Node loads for an import. */
const loadedBy = async (name: string): Promise<ReadonlyArray<string>> => {
  const script = `
    import { registerHooks } from "node:module"
    const loaded = []
    registerHooks({ load: (url, context, next) => { loaded.push(url); return next(url, context) } })
    await import(${JSON.stringify(name)})
    process.stdout.write(JSON.stringify(loaded))`
  return JSON.parse((await run(process.execPath, ["--input-type=module", "--eval", script], { cwd: root })).stdout)
}

describe("@slipway/client", () => {
  it("is compiled for web platforms alone, and neither its code nor its types import anything but each other", async () => {
    const out = await mkdtemp(path.join(tmpdir(), "slipway-client-"))
    try {
      const tsc = path.join(root, "../../node_modules/.bin/tsc")
      await run(tsc, ["-p", "tsconfig.web.json", "--noEmit", "false", "--declaration", "--rootDir", "src", "--outDir", out], { cwd: root })
      const read = new Set<string>()
      const visit = async (file: string): Promise<void> => {
        if (read.has(file)) return
        read.add(file)
        for (const name of namesIn(await readFile(path.join(out, file), "utf8"))) {
          assert.match(name, /^\.\/[A-Za-z]+\.(?:js|ts)$/u, `${file} imports ${name}`)
          await visit(file.endsWith(".d.ts") ? name.slice(2).replace(/\.[jt]s$/u, ".d.ts") : name.slice(2))
        }
      }
      await visit("SlipwayClient.js")
      await visit("SlipwayClient.d.ts")
      assert.includeMembers([...read], ["Transport.js", "SlipwayError.js", "Types.d.ts", "Transport.d.ts"])
    } finally {
      await rm(out, { recursive: true, force: true })
    }
  })

  it("needs nothing that is installed", async () => {
    const manifest = JSON.parse(await readFile(path.join(root, "package.json"), "utf8"))
    assert.deepStrictEqual(manifest.dependencies ?? {}, {})
    assert.deepStrictEqual(
      Object.keys(manifest.peerDependencies).map((name) => manifest.peerDependenciesMeta[name]),
      [{ optional: true }, { optional: true }]
    )
    const loaded = await loadedBy("@slipway/client")
    assert(loaded.length > 1)
    for (const url of loaded) assert(url.startsWith(pathToFileURL(path.join(root, "src/")).href), url)
  })
})

describe("@slipway/client/effect", () => {
  it("is the API's definition and effect, without a server or a platform", async () => {
    const loaded = await loadedBy("@slipway/client/effect")
    assert(loaded.some((url) => url.endsWith("/api/src/Api.ts")))
    assert.deepStrictEqual(loaded.filter((url) => /platform-node|^node:|\/packages\/(?:http|pages|adapters)\//u.test(url)), [])
  })
})

describe("the README", () => {
  it("shows a program that is compiled with the tests", async () => {
    const [readme, program] = await Promise.all(
      ["README.md", "test/Readme.ts"].map((file) => readFile(path.join(root, file), "utf8"))
    )
    assert.include(readme, `\`\`\`ts no-run\n${program}\`\`\``)
  })
})
