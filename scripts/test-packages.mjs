/**
 * Packs, installs the tarballs into empty folders as a stranger would, and uses them there: each example's types and tests,
 * what the pages for people show of TypeScript, and the `slipway` command with its demo, released to a registry of ours and
 * installed from there. `npm run test:packages`; the registry of npm must be reachable.
 */
import { spawn } from "node:child_process"
import { cp, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import path from "node:path"
import { isDeepStrictEqual } from "node:util"
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

const MIB = 2 ** 20
const sizeOf = async (folder) => {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) =>
    entry.isFile() && !path.relative(folder, entry.parentPath).split(path.sep).includes("node_modules")
  )
  const sizes = await Promise.all(files.map(async ({ name, parentPath }) => (await stat(path.join(parentPath, name))).size))
  return sizes.reduce((sum, size) => sum + size, 0)
}

/** The places in a lock of what npm installs for the package at a place: all that it depends on, but for optional packages. */
const installedFor = (packages, at, found = new Set()) => {
  const entry = packages[at]
  if (entry === undefined || entry.optional === true || found.has(at)) return found
  found.add(at)
  const { dependencies = {}, peerDependencies = {}, peerDependenciesMeta = {} } = entry
  const peers = Object.keys(peerDependencies).filter((name) => peerDependenciesMeta[name]?.optional !== true)
  for (const name of [...Object.keys(dependencies), ...peers]) {
    const folders = at.split("/node_modules/").map((_, i, parts) => `${parts.slice(0, parts.length - i).join("/node_modules/")}/`)
    const place = [...folders, ""].map((folder) => `${folder}node_modules/${name}`).find((one) => packages[one] !== undefined)
    if (place !== undefined) installedFor(packages, place, found)
  }
  return found
}

/** Compares what packages of others each of ours installs with `dependencies.json`, and prints their number and size. */
const judgeDependencies = async (folder) => {
  const { packages } = JSON.parse(await readFile(path.join(folder, "package-lock.json"), "utf8"))
  const ours = Object.keys(packages).filter((at) => /^node_modules\/(?:@slipway\/|slipway$)/u.test(at)).sort()
  const sizes = new Map()
  const found = {}
  for (const at of ours) {
    const places = [...installedFor(packages, at)].filter((one) => one !== at && !ours.includes(one))
    for (const one of places) if (!sizes.has(one)) sizes.set(one, await sizeOf(path.join(folder, one)))
    const names = [...new Set(places.map((one) => one.slice(one.lastIndexOf("node_modules/") + "node_modules/".length)))].sort()
    found[at.slice("node_modules/".length)] = names
    const beyond = places.filter((one) => one !== "node_modules/effect").reduce((sum, one) => sum + sizes.get(one), 0) / MIB
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
  const { devDependencies: properties } = (await import("../examples/property-test/package.json", { with: { type: "json" } })).default
  const versions = { ...properties, ...hosts, ...ours }
  const tools = ["@effect/vitest", "@hono/node-server", "@types/node", "fast-check", "fastify", "hono", "typescript", "vitest"]
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
