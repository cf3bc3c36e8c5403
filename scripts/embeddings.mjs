/**
 * The ten steps of an engineer who embeds Slipway, in order, each from the tarballs in a fresh folder that has only what its program
 * imports. The programs are those of the README files, of docs/embedding.md and of the examples: nothing is written for this script alone.
 */
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import path from "node:path"
import * as PostgresServer from "../packages/adapters/embedded-postgres/src/PostgresServer.ts"
import { blocksOf } from "./snippets.mjs"
import { packagesOf } from "./sources.mjs"

const MIB = 2 ** 20

/** Bytes of the files of a package, without the packages below it. */
const sizeOf = async (folder) => {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) =>
    entry.isFile() && !path.relative(folder, entry.parentPath).split(path.sep).includes("node_modules")
  )
  const sizes = await Promise.all(files.map(async ({ name, parentPath }) => (await stat(path.join(parentPath, name))).size))
  return sizes.reduce((sum, size) => sum + size, 0)
}

/** MiB of these places of a lock, without effect. */
export const mibBesideEffect = async (folder, places) => {
  const sizes = await Promise.all(places.filter((at) => at !== "node_modules/effect").map((at) => sizeOf(path.join(folder, at))))
  return sizes.reduce((sum, size) => sum + size, 0) / MIB
}

/** The places in a lock of what npm installs for the package at a place: all that it depends on, but for optional packages. */
export const installedFor = (packages, at, found = new Set()) => {
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

const DOMAIN = "packages/domain/README.md"
const WORKER = "packages/worker/README.md"
const EMBEDDING = "docs/embedding.md"

const SUITES = ["Checkpoints", "Durability", "Leases", "Maintenance", "SandboxStore"].map((name) => `test/${name}.suites.ts`)

/**
 * The steps. A step is either blocks of a page, each named by a text that only this block of the page has, or files of an example with the
 * scripts of its package.json that the step runs. The last block is run, unless `run` names a program of `scripts/snippets`.
 */
const STEPS = [
  { step: "1 decide a command and fold its events", page: DOMAIN, blocks: ["evolveAll("] },
  { step: "2 run a use case on stores in memory", page: DOMAIN, blocks: ["Effect.provide(created, Domain)"] },
  { step: "3 run a turn of an own agent in memory", page: WORKER, blocks: ["const Machine = MemoryMachine"] },
  { step: "4 the same on Postgres, as promises", page: WORKER, blocks: ["await slipway.access.createGrant"], onPostgres: true },
  { step: "4 the same on Postgres, in Effect", page: WORKER, blocks: ["access) => access.createGrant"], onPostgres: true },
  {
    step: "5 mount the HTTP API in Hono until it answers 201",
    page: EMBEDDING,
    blocks: ["export const services", "export const slipway", "new Hono()"],
    run: "mounted.ts"
  },
  { step: "6 the promise form with own keys", page: DOMAIN, blocks: ["access.createKey"] },
  {
    step: "7 an own store by StoreKit, on SQLite",
    example: "sqlite-store",
    files: ["src/Database.ts", "src/Statements.ts", "src/Stores.ts"],
    scripts: ["check"]
  },
  { step: "7 Express and a worker on that store", example: "sqlite-store", files: ["src/main.ts"], scripts: [] },
  { step: "8 test the laws with fast-check", example: "property-test", files: ["test/Histories.test.ts"], scripts: ["check", "test"] },
  {
    step: "9 the contract suites of a port on an own store",
    example: "sqlite-store",
    files: ["test/Fixture.ts", "test/Stores.test.ts", ...SUITES],
    scripts: ["test"]
  },
  { step: "10 TestSlipway in a test", page: WORKER, blocks: ["TestSlipway.start"] }
]

/**
 * The same steps before `Stores`, `LocalMachine`, `StoreKit`, `Embed.access` and `TestSlipway`: the counts of an outside engineer who had
 * only the tarballs of 2026-11-28. This script does not measure them.
 */
const BEFORE = {
  "1 decide a command and fold its events": "2 packages",
  "4 the same on Postgres, as promises": "105 packages, 15 services",
  "4 the same on Postgres, in Effect": "110 lines",
  "5 mount the HTTP API in Hono until it answers 201": "105 packages without pages; 73 lines, which answered 401",
  "7 an own store by StoreKit, on SQLite": "972 lines",
  "7 Express and a worker on that store": "163 lines"
}

/** Pages for people are optional, and the number of packages before is without them. */
const UNCOUNTED = new Set(["@slipway/pages", "@effect/vitest", "vitest"])

/** The packages that a program imports. */
const packagesIn = (program) =>
  Array.from(program.matchAll(/\bfrom "((?:@[^/"]+\/)?[^./"][^/"]*)/gu), ([, name]) => name).filter((name) => !name.startsWith("node:"))

const linesOf = (program) => program.trimEnd().split("\n").length

/** The places in the folder's lock of these packages and of all that they depend on. */
const placesOf = async (folder, names) => {
  const { packages } = JSON.parse(await readFile(path.join(folder, "package-lock.json"), "utf8"))
  const found = new Set()
  for (const name of names) if (!UNCOUNTED.has(name)) installedFor(packages, `node_modules/${name}`, found)
  return [...found]
}

/** Names of the tarballs that these packages of ours need: npm finds no other in its registry. */
const tarballsOf = async (root, packed, names) => {
  const manifests = await Promise.all(
    packagesOf(root).map(async (folder) => JSON.parse(await readFile(path.join(root, folder, "package.json"), "utf8")))
  )
  const dependencies = new Map(manifests.map((one) => [one.name, Object.keys(one.dependencies ?? {})]))
  const all = new Set(names)
  for (const name of all) for (const one of dependencies.get(name) ?? []) if (dependencies.has(one)) all.add(one)
  return [...all].filter((name) => dependencies.has(name)).map((name) => path.join(packed, `${name.slice(1).replace("/", "-")}.tgz`))
}

const hasBubblewrap = () => {
  try {
    execFileSync("bwrap", ["--ro-bind", "/", "/", "--unshare-all", "true"])
    return true
  } catch {
    return false
  }
}

/** The folder as a git repository with one commit. */
const commit = async (folder) => {
  await writeFile(path.join(folder, "README.md"), "# Shop\n")
  const author = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]
  for (const args of [["init", "--quiet"], ["add", "README.md"], [...author, "commit", "--quiet", "--message", "Begin"]]) {
    execFileSync("git", args, { cwd: folder })
  }
}

/** Calls with the URL of a database of a server of its own. */
const withPostgres = async (use) => {
  const dataDir = await mkdtemp(path.join(tmpdir(), "slipway-embeddings-"))
  try {
    await Effect.runPromise(Effect.scoped(Effect.flatMap(
      PostgresServer.start({ dataDir, durable: false }),
      ({ database, path: socket, username }) =>
        Effect.promise(() => use(`postgres:///${database}?${new URLSearchParams({ host: path.dirname(socket), user: username })}`))
    )))
  } finally {
    await rm(dataDir, { recursive: true, force: true })
  }
}

/** The programs of the step: those that are counted, and the last one is run. */
const programsOf = async (root, { blocks, page, run }) => {
  const all = blocksOf(await readFile(path.join(root, page), "utf8"))
  const own = blocks.map((text) => {
    const [block, ...more] = all.filter(({ source }) => source.includes(text))
    if (block === undefined || more.length > 0) throw new Error(`${page}: ${more.length + 1} blocks have ${text}, or none`)
    return block
  })
  const counted = own.map(({ source }) => source)
  if (run === undefined) return { counted, programs: own.map(({ source }) => ({ file: "program.ts", source })) }
  // It imports the modules of the page from a folder with the name of the page.
  const folder = page.replace(/\.md$/u, "").replaceAll("/", "-")
  const modules = all.filter(({ mark }) => mark?.endsWith(".ts")).map(({ mark, source }) => ({ file: `${folder}/${mark}`, source }))
  return { counted, programs: [...modules, { file: run, source: await readFile(path.join(root, "scripts/snippets", run), "utf8") }] }
}

/** Runs the blocks of a step in a folder of their own. */
const runBlocks = async ({ install, packed, root, run, versions }, folder, step) => {
  const { counted, programs } = await programsOf(root, step)
  await mkdir(folder, { recursive: true })
  await writeFile(path.join(folder, "package.json"), JSON.stringify({ private: true, type: "module" }))
  for (const { file, source } of programs) {
    await mkdir(path.dirname(path.join(folder, file)), { recursive: true })
    await writeFile(path.join(folder, file), source)
  }
  const names = [...new Set(programs.flatMap(({ source }) => packagesIn(source)))]
  const tools = names.filter((name) => !name.startsWith("@slipway/")).map((name) => `${name}@${versions[name]}`)
  await install(folder, [...await tarballsOf(root, packed, names), ...tools])
  const start = (env) => run(process.execPath, [programs.at(-1).file], folder, env)
  if (step.onPostgres !== true) await start()
  else if (!hasBubblewrap()) process.stdout.write("not run: it needs bubblewrap\n")
  else {
    await commit(folder)
    await withPostgres((url) => start({ DATABASE_URL: url }))
  }
  return counted
}

/** Runs scripts of an example, and gives the files of the step. */
const runExample = async ({ installExample, root, run }, { example, files, scripts }) => {
  const folder = await installExample(example)
  for (const script of scripts) await run("npm", ["run", script], folder)
  return Promise.all(files.map((file) => readFile(path.join(root, "examples", example, file), "utf8")))
}

const print = (rows) => {
  const widths = rows[0].map((_, column) => Math.max(...rows.map((row) => row[column].length)))
  const line = (row) => row.map((cell, column) => cell.padEnd(widths[column])).join("  ").trimEnd()
  process.stdout.write(`${rows.map(line).join("\n")}\n`)
}

/**
 * Runs the steps below `place` and prints the table. Gives the sources that were run. `install` installs tarballs and packages in a
 * folder, `installExample` an example in its folder, `versions` has those of other packages.
 */
export const embed = async (given) => {
  const rows = [["step", "packages", "MiB beside effect", "lines", "before"]]
  const ran = new Set()
  for (const [index, step] of STEPS.entries()) {
    process.stdout.write(`\n# ${step.step}\n`)
    const folder = step.example === undefined
      ? path.join(given.place, "embeddings", String(index))
      : path.join(given.place, "examples", step.example)
    const counted = step.example === undefined ? await runBlocks(given, folder, step) : await runExample(given, step)
    for (const source of counted) ran.add(source)
    const places = await placesOf(folder, new Set(counted.flatMap(packagesIn)))
    const lines = counted.reduce((sum, source) => sum + linesOf(source), 0)
    const mib = await mibBesideEffect(folder, places)
    rows.push([step.step, String(places.length), mib.toFixed(1), String(lines), BEFORE[step.step] ?? ""])
  }
  process.stdout.write("\n")
  print(rows)
  return ran
}
