/**
 * Makes the tarballs that can be published: `npm run pack`, or `npm run pack -- <folder>`; dist/packages by default.
 *
 * In the workspace a package exports its TypeScript, so that nothing is built for development. npm packs a folder as it
 * is and cannot replace `exports` while it does so. Hence each package is compiled into a folder of its own, where
 * `src/X.ts` has become `src/X.js` and `src/X.d.ts`: the published manifest is the workspace's with `.js` for `.ts`, and without
 * its `private`, which keeps npm from publishing sources. `slipway`, which no program imports, is bundled instead, with all that it
 * depends on. Tarballs are named without a version: examples name them too.
 */
import { execFile } from "node:child_process"
import { cp, mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from "node:fs/promises"
import { availableParallelism, tmpdir } from "node:os"
import path from "node:path"
import { promisify } from "node:util"
import { rolldown } from "rolldown"
import { bundle } from "./bundle.mjs"
import { packagesOf } from "./sources.mjs"

const run = promisify(execFile)
const root = path.resolve(import.meta.dirname, "..")
const { bugs, homepage, repository } = JSON.parse(await readFile(path.join(root, "package.json"), "utf8"))

/** The modules of `@slipway/adapters`: one for each old path, which exports what the package that took its place has there. */
const reexport = async (stage) => {
  const modules = JSON.parse(await readFile(path.join(root, "packages/adapters/all/modules.json"), "utf8"))
  for (const [old, now] of Object.entries(modules)) {
    const file = path.join(stage, "src", old)
    await mkdir(path.dirname(file), { recursive: true })
    for (const kind of [".js", ".d.ts"]) await writeFile(`${file}${kind}`, `/** @deprecated Import ${now} */\nexport * from "${now}"\n`)
  }
  const exports = Object.fromEntries(Object.keys(modules).map((old) => [`./${old}`, `./src/${old}.js`]))
  return { exports: { ...exports, "./package.json": "./package.json" }, sideEffects: ["./src/agents/offline/main.js"] }
}

/** Entry points of processes and threads: importing them runs something. */
const sideEffects = ["./src/**/*.main.js"]

/**
 * By its folder, what a package adds to its workspace manifest, and the files it has beside its modules; `docs` are of the repository.
 * A package that is not here adds {@link sideEffects} alone.
 */
const packages = {
  "adapters/all": { build: reexport },
  domain: {
    docs: ["docs/interface.md", "docs/decisions"],
    manifest: { sideEffects: false }
  },
  testing: {
    manifest: {
      sideEffects: false,
      // For `runners/Vitest` alone.
      peerDependencies: { vitest: "^5.1.1" },
      peerDependenciesMeta: { vitest: { optional: true } }
    }
  },
  client: { manifest: { sideEffects: false, engines: { node: ">=20.19" } } },
  api: { files: ["openapi.json", "openapi-internal.json"], manifest: { sideEffects: false } },
  pages: { folders: ["assets"], manifest: { sideEffects: false } },
  slipway: { build: bundle, files: ["openapi.json", "openapi-internal.json"] }
}

/**
 * The entries of `exports` that are published: `internal/…` is for tests of the workspace, and `testing` of most packages is not
 * packed. An entry that is `null` takes something out of a folder that is exported.
 */
const exportsOf = (manifest, folders) =>
  Object.entries(manifest.exports ?? {})
    .filter(([name]) => !name.startsWith("./internal/"))
    .filter(([name, target]) => folders.includes((target ?? name).split("/")[1]))
    .map(([name, target]) => [name, target?.replace(/\.ts$/u, ".js") ?? null])

const published = (name, manifest, folders, { files, peerDependencies = {}, peerDependenciesMeta = {}, ...more }) => ({
  name: manifest.name,
  version: manifest.version,
  description: manifest.description,
  keywords: manifest.keywords,
  homepage,
  bugs,
  license: manifest.license,
  repository: { ...repository, directory: `packages/${name}` },
  type: "module",
  engines: { node: ">=22.19" },
  publishConfig: { access: "public", provenance: true },
  files: [...folders, ...files, "CHANGELOG.md"],
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

const compile = async (stage, source, plain) => {
  const tsc = path.join(root, "node_modules/.bin/tsc")
  await run(tsc, ["-p", "tsconfig.build.json", "--rootDir", ".", "--outDir", stage, "--inlineSources"], { cwd: source })
  await nameCompiledModules(stage)
  for (const name of plain) {
    await cp(path.join(source, name), path.join(stage, name), {
      recursive: true,
      filter: (file) => path.basename(file) !== "tsconfig.json"
    })
  }
}

/** Its HTTP client's peer is a client of Redis, which npm installs: 15 MiB that no module of ours uses. */
const PLATFORM = "@effect/platform-node"

/**
 * Puts the modules of {@link PLATFORM} that a package imports into its folder `vendor`, with what they import except effect, whose
 * services are found by name. The published package does not depend on it. Declarations must not name it.
 */
const vendor = async (stage) => {
  const importing = new RegExp(`"${PLATFORM}/(\\w+)"`, "gu")
  const modules = new Set()
  for (const file of await readdir(stage, { recursive: true })) {
    const at = path.join(stage, file)
    if (file.endsWith(".d.ts") && (await readFile(at, "utf8")).includes(PLATFORM)) throw new Error(`${at} names ${PLATFORM}`)
    if (!file.endsWith(".js")) continue
    const text = await readFile(at, "utf8")
    const place = path.posix.relative(path.posix.dirname(file), "vendor")
    const own = text.replace(importing, (_, module) => {
      modules.add(module)
      return `"${place.startsWith(".") ? place : `./${place}`}/${module}.js"`
    })
    if (own !== text) await writeFile(at, own)
  }
  const input = Object.fromEntries([...modules].map((module) => [module, `${PLATFORM}/${module}`]))
  const bundled = await rolldown({
    cwd: root,
    platform: "node",
    input,
    external: /^effect(?:\/|$)/u,
    treeshake: { moduleSideEffects: false }
  })
  await bundled.write({ dir: path.join(stage, "vendor"), format: "esm", chunkFileNames: "[name].js" })
  const licences = [PLATFORM, `${PLATFORM}-shared`, "ws"].map(async (name) =>
    `${name}\n\n${await readFile(path.join(root, "node_modules", name, "LICENSE"), "utf8")}`
  )
  await writeFile(path.join(stage, "vendor/LICENSES"), (await Promise.all(licences)).join("\n\n"))
}

const pack = async (name, { build, docs = [], files = [], folders: plain = [], manifest }, staging, destination) => {
  const source = path.join(root, "packages", name)
  const stage = path.join(staging, name)
  await mkdir(stage, { recursive: true })
  const more = build === undefined ? await compile(stage, source, [...plain, ...files]).then(() => manifest) : await build(stage)
  const own = JSON.parse(await readFile(path.join(source, "package.json"), "utf8"))
  if (build === undefined && own.dependencies?.[PLATFORM] !== undefined) {
    await vendor(stage)
    delete own.dependencies[PLATFORM]
  }
  for (const file of docs) await cp(path.join(root, file), path.join(stage, file), { recursive: true })
  const folders = (await readdir(stage, { withFileTypes: true })).filter((entry) => entry.isDirectory()).map((entry) => entry.name)
  await writeFile(path.join(stage, "package.json"), `${JSON.stringify(published(name, own, folders, { ...more, files }), null, 2)}\n`)
  for (const file of ["README.md", "CHANGELOG.md"]) await cp(path.join(source, file), path.join(stage, file))
  await cp(path.join(root, "LICENSE"), path.join(stage, "LICENSE"))
  const { stdout } = await run("npm", ["pack", "--json", "--pack-destination", destination], { cwd: stage })
  const [{ entryCount, filename, size }] = Object.values(JSON.parse(stdout))
  const tarball = path.join(destination, filename.replace(`-${own.version}.tgz`, ".tgz"))
  await rename(path.join(destination, filename), tarball)
  process.stdout.write(`${tarball}  ${entryCount} files, ${Math.ceil(size / 1024)} KiB\n`)
}

const destination = path.resolve(process.argv[2] ?? path.join(root, "dist/packages"))
const staging = await mkdtemp(path.join(tmpdir(), "slipway-pack-"))
try {
  await mkdir(destination, { recursive: true })
  for (const file of await readdir(destination)) if (file.endsWith(".tgz")) await rm(path.join(destination, file))
  const names = packagesOf(root).map((folder) => folder.slice("packages/".length)).values()
  const besides = (name) => packages[name] ?? { manifest: { sideEffects } }
  // Each takes a compiler's memory.
  await Promise.all(Array.from({ length: availableParallelism() }, async () => {
    for (const name of names) await pack(name, besides(name), staging, destination)
  }))
} finally {
  // Other packages may still write after one has failed.
  await rm(staging, { recursive: true, force: true, maxRetries: 5 })
}
