/**
 * Makes the tarballs that can be published: `npm run pack`, or `npm run pack -- <folder>`; dist/packages by default.
 *
 * In the workspace a package exports its TypeScript, so that nothing is built for development. npm packs a folder as it
 * is and cannot replace `exports` while it does so. Hence each package is compiled into a folder of its own, where
 * `src/X.ts` has become `src/X.js` and `src/X.d.ts`: the published manifest is the workspace's with `.js` for `.ts`.
 */
import { execFile } from "node:child_process"
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import path from "node:path"
import { promisify } from "node:util"

const run = promisify(execFile)
const root = path.resolve(import.meta.dirname, "..")

/** What each package adds to its workspace manifest, and the files it has beside its modules; `docs` are of the repository. */
const packages = {
  domain: {
    docs: ["docs/interface.md", "docs/decisions.md"],
    manifest: {
      sideEffects: false,
      // Only the contract suites of `testing` need them.
      peerDependencies: { "@effect/vitest": "^4.0.5", vitest: "^5.1.1" },
      peerDependenciesMeta: { "@effect/vitest": { optional: true }, vitest: { optional: true } }
    }
  },
  adapters: { manifest: { sideEffects: ["./src/agents/offline/main.js"] } },
  worker: { manifest: { sideEffects: false } },
  client: { manifest: { sideEffects: false, engines: { node: ">=20" } } },
  conformance: { manifest: { sideEffects: false } },
  http: { folders: ["assets"], manifest: { sideEffects: false } },
  slipway: { folders: ["bin"], manifest: { sideEffects: ["./src/main.js", "./bin/slipway.js"] } }
}

/**
 * The entries of `exports` that are published: `internal/…` is for tests of the workspace, and `testing` of most packages is not
 * packed. An entry that is `null` takes something out of a folder that is exported.
 */
const exportsOf = (manifest, folders) =>
  Object.entries(manifest.exports)
    .filter(([name]) => !name.startsWith("./internal/"))
    .filter(([name, target]) => folders.includes((target ?? name).split("/")[1]))
    .map(([name, target]) => [name, target?.replace(/\.ts$/u, ".js") ?? null])

const published = (manifest, folders, { peerDependencies = {}, peerDependenciesMeta = {}, ...more }) => ({
  name: manifest.name,
  version: manifest.version,
  description: manifest.description,
  license: manifest.license,
  type: "module",
  engines: { node: ">=22.19" },
  files: folders,
  ...(manifest.bin === undefined ? {} : { bin: manifest.bin }),
  exports: { ...Object.fromEntries(exportsOf(manifest, folders)), "./package.json": "./package.json" },
  dependencies: manifest.dependencies,
  ...(manifest.optionalDependencies === undefined ? {} : { optionalDependencies: manifest.optionalDependencies }),
  peerDependencies: { ...manifest.peerDependencies, ...peerDependencies },
  peerDependenciesMeta: { ...manifest.peerDependenciesMeta, ...peerDependenciesMeta },
  ...more
})

/** tsc gives JavaScript its `.js` imports, but leaves `.ts` in declarations. */
const nameCompiledModules = async (folder) => {
  for (const file of await readdir(folder, { recursive: true })) {
    if (!file.endsWith(".d.ts")) continue
    const declarations = await readFile(path.join(folder, file), "utf8")
    await writeFile(path.join(folder, file), declarations.replace(/((?:from |import\()"\.\.?\/[^"]*)\.ts"/gu, "$1.js\""))
  }
}

const pack = async (name, { docs = [], folders: plain = [], manifest: more }, staging, destination) => {
  const source = path.join(root, "packages", name)
  const stage = path.join(staging, name)
  const tsc = path.join(root, "node_modules/.bin/tsc")
  await run(tsc, ["-p", "tsconfig.build.json", "--rootDir", ".", "--outDir", stage, "--inlineSources"], { cwd: source })
  await nameCompiledModules(stage)
  const manifest = JSON.parse(await readFile(path.join(source, "package.json"), "utf8"))
  for (const folder of plain) {
    await cp(path.join(source, folder), path.join(stage, folder), {
      recursive: true,
      filter: (file) => path.basename(file) !== "tsconfig.json"
    })
  }
  for (const file of docs) await cp(path.join(root, file), path.join(stage, file))
  const folders = (await readdir(stage, { withFileTypes: true })).filter((entry) => entry.isDirectory()).map((entry) => entry.name)
  await writeFile(path.join(stage, "package.json"), `${JSON.stringify(published(manifest, folders, more), null, 2)}\n`)
  await cp(path.join(source, "README.md"), path.join(stage, "README.md"))
  await cp(path.join(root, "LICENSE"), path.join(stage, "LICENSE"))
  const { stdout } = await run("npm", ["pack", "--json", "--pack-destination", destination], { cwd: stage })
  const [{ entryCount, filename, size }] = Object.values(JSON.parse(stdout))
  process.stdout.write(`${path.join(destination, filename)}  ${entryCount} files, ${Math.ceil(size / 1024)} KiB\n`)
}

const destination = path.resolve(process.argv[2] ?? path.join(root, "dist/packages"))
const staging = await mkdtemp(path.join(tmpdir(), "slipway-pack-"))
try {
  await mkdir(destination, { recursive: true })
  for (const file of await readdir(destination)) if (file.endsWith(".tgz")) await rm(path.join(destination, file))
  await Promise.all(Object.entries(packages).map(([name, more]) => pack(name, more, staging, destination)))
} finally {
  await rm(staging, { recursive: true, force: true })
}
