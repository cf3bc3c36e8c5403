/**
 * Packs, installs the tarballs into empty folders as a stranger would, and uses them there: the ten steps of an embedder with a table of
 * what each installs, the other examples' types and tests, what the pages for people show of TypeScript, and the `slipway` command with
 * its demo, released to a registry of ours and installed from there. `npm run test:packages`; the registry of npm must be reachable.
 */
import { spawn } from "node:child_process"
import { existsSync } from "node:fs"
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import path from "node:path"
import { isDeepStrictEqual } from "node:util"
import { embed, installedFor, mibBesideEffect } from "./embeddings.mjs"
import { start } from "./registry.mjs"
import { write } from "./snippets.mjs"

const root = path.resolve(import.meta.dirname, "..")
/** Nothing here is tested with it but that it can. */
const JEST = "jest@30.5.2"

const run = (command, args, cwd, env = {}) =>
  new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd, stdio: "inherit", env: { ...process.env, ...env } })
    child.once("error", reject)
    child.once("exit", (code) => code === 0 ? resolve() : reject(new Error(`${command} ${args.join(" ")} in ${cwd}: exit code ${code}`)))
  })
const glob = async (folder) =>
  (await readdir(folder, { recursive: true })).filter((file) => file.endsWith(".ts") && !file.includes("node_modules"))
const install = (folder, tarballs) => run("npm", ["install", "--no-audit", "--no-fund", ...tarballs], folder)

/** Compares what packages of others each of ours installs with `dependencies.json`, and prints their number and size. */
const judgeDependencies = async (folder) => {
  const { packages } = JSON.parse(await readFile(path.join(folder, "package-lock.json"), "utf8"))
  const ours = Object.keys(packages).filter((at) => /^node_modules\/(?:@slipway\/|slipway$)/u.test(at)).sort()
  const found = {}
  for (const at of ours) {
    const places = [...installedFor(packages, at)].filter((one) => one !== at && !ours.includes(one))
    const names = [...new Set(places.map((one) => one.slice(one.lastIndexOf("node_modules/") + "node_modules/".length)))].sort()
    found[at.slice("node_modules/".length)] = names
    const beyond = await mibBesideEffect(folder, places)
    process.stdout.write(
      `${at.slice("node_modules/".length)}: ${names.length} packages of others, ${beyond.toFixed(1)} MiB beside effect\n`
    )
  }
  const kept = JSON.parse(await readFile(path.join(import.meta.dirname, "dependencies.json"), "utf8"))
  if (!isDeepStrictEqual(found, kept)) {
    throw new Error(`scripts/dependencies.json does not list what the packages install, which is:\n${JSON.stringify(found, null, 2)}`)
  }
}

const place = await mkdtemp(path.join(tmpdir(), "slipway-packages-"))
try {
  // As in the repository: examples name the tarballs by where `npm run pack` puts them.
  const packed = path.join(place, "dist/packages")
  await run(process.execPath, [path.join(import.meta.dirname, "pack.mjs"), packed], root)
  const tarballs = (await readdir(packed)).map((file) => path.join(packed, file))

  const { devDependencies: ours } = (await import("../package.json", { with: { type: "json" } })).default
  const { devDependencies: hosts } = (await import("../packages/http/package.json", { with: { type: "json" } })).default
  const { devDependencies: properties } = (await import("../examples/property-test/package.json", { with: { type: "json" } })).default
  const versions = { ...properties, ...hosts, ...ours }

  const installed = new Set()
  /** The folder of an example with its packages, which are installed once. */
  const installExample = async (example) => {
    const folder = path.join(place, "examples", example)
    if (installed.has(example)) return folder
    installed.add(example)
    const filter = (source) => path.basename(source) !== "node_modules"
    await cp(path.join(root, "examples", example), folder, { recursive: true, filter })
    await install(folder, [])
    return folder
  }
  const ran = await embed({ install, installExample, packed, place, root, run, versions })

  const examples = await readdir(path.join(root, "examples"))
  // The others run in a checkout: they have no packages.
  const withPackages = examples.filter((example) => existsSync(path.join(root, "examples", example, "package.json")))
  for (const example of withPackages.filter((example) => !installed.has(example))) {
    process.stdout.write(`\n# examples/${example}\n`)
    const folder = await installExample(example)
    await run("npm", ["run", "check"], folder)
    await run("npm", ["test", "--if-present"], folder)
  }

  process.stdout.write("\n# what the pages show\n")
  const shown = path.join(place, "shown")
  await mkdir(shown)
  await writeFile(path.join(shown, "package.json"), JSON.stringify({ private: true, type: "module" }))
  const tools = ["@effect/vitest", "@hono/node-server", "@types/node", "fast-check", "fastify", "hono", "typescript", "vitest"]
  await install(shown, [...tarballs, ...tools.map((name) => `${name}@${versions[name]}`)])
  const programs = await write(root, shown)
  await cp(path.join(root, "scripts/snippets/mounted.ts"), path.join(shown, "mounted.ts")) // for its types: a step runs it
  const options = ["--noEmit", "--strict", "--skipLibCheck", "--target", "ES2024", "--module", "NodeNext", "--allowImportingTsExtensions"]
  await run("npx", ["tsc", ...options, "--types", "node", ...(await glob(shown))], shown)
  for (const program of programs) {
    if (ran.has(await readFile(path.join(shown, program), "utf8"))) continue
    process.stdout.write(`${program}\n`)
    await run(process.execPath, [program], shown)
  }

  await run(process.execPath, ["--input-type=module", "--eval", `await import("@slipway/adapters/postgres/Database")`], shown)

  process.stdout.write("\n# what each package installs\n")
  await judgeDependencies(shown)

  process.stdout.write("\n# contract suites as tests of Jest\n")
  const jest = path.join(place, "jest")
  await mkdir(jest)
  const settings = { testEnvironment: "node", testMatch: ["**/*.jest.mjs"] }
  await writeFile(path.join(jest, "package.json"), JSON.stringify({ private: true, type: "module", jest: settings }))
  await cp(path.join(root, "scripts/snippets/hints.jest.mjs"), path.join(jest, "hints.jest.mjs"))
  await install(jest, [...tarballs.filter((file) => /domain|testing/u.test(file)), `effect@${versions.effect}`, JEST])
  await run(process.execPath, ["--experimental-vm-modules", "node_modules/jest/bin/jest.js"], jest)

  process.stdout.write("\n# slipway\n")
  const registry = await start()
  try {
    // There is no provenance outside of what builds in public.
    await run(
      process.execPath,
      [path.join(import.meta.dirname, "release.mjs"), packed, "--no-provenance", "--loglevel=error"],
      root,
      registry.env
    )
    const prefix = path.join(place, "installed")
    // Without install scripts, which npm does not run unless it is asked to.
    await run(
      "npm",
      ["install", "--global", `--prefix=${prefix}`, "--ignore-scripts", "--no-audit", "--no-fund", "slipway"],
      place,
      registry.env
    )
    const slipway = path.join(prefix, "bin/slipway")
    await run(slipway, ["--version"], place)
    // Printed, not judged: it depends on the machine. People are promised 20 s on an otherwise idle machine.
    const began = performance.now()
    await run(slipway, ["demo"], place)
    process.stdout.write(`slipway demo, installed: ${((performance.now() - began) / 1000).toFixed(1)} s\n`)
  } finally {
    registry.close()
  }
} finally {
  await rm(place, { recursive: true, force: true })
}
