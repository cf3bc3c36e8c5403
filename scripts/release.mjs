/**
 * Publishes the packages of a folder that are not on the registry yet, those first that others depend on: `npm run release`,
 * after which docs/upgrade.md says what is left to do. Safe to repeat after it failed. What it passes on to npm is its own
 * arguments behind the folder, such as `--dry-run`.
 */
import { execFileSync, spawnSync } from "node:child_process"
import { readdirSync } from "node:fs"
import path from "node:path"

const [folder, ...options] = process.argv.slice(2)
const run = (command, args) => execFileSync(command, args, { encoding: "utf8" })
const packages = readdirSync(folder).map((file) => {
  const tarball = path.resolve(folder, file)
  return { tarball, manifest: JSON.parse(run("tar", ["-xzOf", tarball, "package/package.json"])) }
})

/** In the order in which each finds on the registry what it depends on. */
const ordered = []
const add = ({ manifest, tarball }) => {
  if (ordered.some((other) => other.tarball === tarball)) return
  const wanted = { ...manifest.dependencies, ...manifest.peerDependencies }
  for (const other of packages) if (other.manifest.name in wanted) add(other)
  ordered.push({ manifest, tarball })
}
for (const one of packages) add(one)

/** Nothing else means "not there": a registry that cannot be asked does not say so. */
const isPublished = (spec) => {
  const { status, stderr, stdout } = spawnSync("npm", ["view", spec, "version", "--json"], { encoding: "utf8" })
  if (status === 0) return stdout.trim() !== ""
  if (stderr.includes("E404") || stdout.includes("E404")) return false
  throw new Error(`npm view ${spec}: ${stderr}`)
}

for (const { manifest: { name, version }, tarball } of ordered) {
  const spec = `${name}@${version}`
  if (isPublished(spec)) {
    process.stdout.write(`${spec} is on the registry\n`)
    continue
  }
  execFileSync("npm", ["publish", tarball, ...options], { stdio: "inherit" })
}
