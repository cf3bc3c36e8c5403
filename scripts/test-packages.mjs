/**
 * Packs, installs the tarballs into empty folders as a stranger would, and uses them there: each example's types and tests,
 * what the pages for people show of TypeScript, and the `slipway` command with its demo, released to a registry of ours and
 * installed from there. `npm run test:packages`; the registry of npm must be reachable.
 */
import { spawn } from "node:child_process"
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import path from "node:path"
import { start } from "./registry.mjs"
import { write } from "./snippets.mjs"

const root = path.resolve(import.meta.dirname, "..")
/** Nothing here is tested with it but that it can. */
const JEST = "jest@30.5.2"
/** The stores, the domain, effect and its client of Postgres. */
const MOST_FOR_POSTGRES = 4

const run = (command, args, cwd, env = {}) =>
  new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd, stdio: "inherit", env: { ...process.env, ...env } })
    child.once("error", reject)
    child.once("exit", (code) => code === 0 ? resolve() : reject(new Error(`${command} ${args.join(" ")} in ${cwd}: exit code ${code}`)))
  })
const glob = async (folder) =>
  (await readdir(folder, { recursive: true })).filter((file) => file.endsWith(".ts") && !file.includes("node_modules"))
const install = (folder, tarballs) => run("npm", ["install", "--no-audit", "--no-fund", ...tarballs], folder)

const place = await mkdtemp(path.join(tmpdir(), "slipway-packages-"))
try {
  // As in the repository: examples name the tarballs by where `npm run pack` puts them.
  const packed = path.join(place, "dist/packages")
  await run(process.execPath, [path.join(import.meta.dirname, "pack.mjs"), packed], root)
  const tarballs = (await readdir(packed)).map((file) => path.join(packed, file))

  for (const example of await readdir(path.join(root, "examples"))) {
    const folder = path.join(place, "examples", example)
    process.stdout.write(`\n# examples/${example}\n`)
    await cp(path.join(root, "examples", example), folder, {
      recursive: true,
      filter: (source) => path.basename(source) !== "node_modules"
    })
    await install(folder, [])
    await run("npm", ["run", "check"], folder)
    await run("npm", ["test", "--if-present"], folder)
  }

  process.stdout.write("\n# what the pages show\n")
  const shown = path.join(place, "shown")
  await mkdir(shown)
  await writeFile(path.join(shown, "package.json"), JSON.stringify({ private: true, type: "module" }))
  const { devDependencies: ours } = (await import("../package.json", { with: { type: "json" } })).default
  const { devDependencies: hosts } = (await import("../packages/http/package.json", { with: { type: "json" } })).default
  const versions = { ...hosts, ...ours }
  const tools = ["@effect/vitest", "@hono/node-server", "@types/node", "fastify", "hono", "typescript", "vitest"]
  await install(shown, [...tarballs, ...tools.map((name) => `${name}@${versions[name]}`)])
  const programs = await write(root, shown)
  await cp(path.join(root, "scripts/snippets/mounted.ts"), path.join(shown, "mounted.ts"))
  const options = ["--noEmit", "--strict", "--skipLibCheck", "--target", "ES2024", "--module", "NodeNext", "--allowImportingTsExtensions"]
  await run("npx", ["tsc", ...options, "--types", "node", ...(await glob(shown))], shown)
  for (const program of [...programs, "mounted.ts"]) {
    process.stdout.write(`${program}\n`)
    await run(process.execPath, [program], shown)
  }

  await run(process.execPath, ["--input-type=module", "--eval", `await import("@slipway/adapters/postgres/Database")`], shown)

  process.stdout.write("\n# the stores on Postgres alone\n")
  const embedder = path.join(place, "embedder")
  await mkdir(embedder)
  await writeFile(path.join(embedder, "package.json"), JSON.stringify({ private: true, type: "module" }))
  const stores = tarballs.filter((file) => /slipway-(?:domain|postgres)\.tgz$/u.test(file))
  const { peerDependencies } = (await import("../packages/adapters/postgres/package.json", { with: { type: "json" } })).default
  await install(embedder, [...stores, `effect@${peerDependencies.effect}`])
  const { packages } = JSON.parse(await readFile(path.join(embedder, "package-lock.json"), "utf8"))
  const installed = Object.entries(packages).filter(([name, { optional }]) => name !== "" && optional !== true).map(([name]) => name)
  process.stdout.write(`${installed.join("\n")}\n`)
  if (installed.length > MOST_FOR_POSTGRES) throw new Error(`${installed.length} packages are installed for the stores on Postgres`)

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
