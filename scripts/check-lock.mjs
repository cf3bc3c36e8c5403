/**
 * Fails on an entry of the lock without a digest: `npm ci` would take whatever a registry gives under its name. `--fill` asks the
 * registry for those that are missing.
 *
 * `check-lock.unpinned.json` names builds of our own tools for other platforms which the registry we ask does not have. None of
 * them is installed on Linux with an Intel processor. The list only shrinks: who changes one of these versions fills in its digest.
 */
import { spawnSync } from "node:child_process"
import { readFileSync, writeFileSync } from "node:fs"
import path from "node:path"

const read = (name) => JSON.parse(readFileSync(name, "utf8"))
const lockFile = path.join(import.meta.dirname, "../package-lock.json")
const listFile = path.join(import.meta.dirname, "check-lock.unpinned.json")
const lock = read(lockFile)
const known = new Set(read(listFile))

const nameOf = (place, { name }) => name ?? place.slice(place.lastIndexOf("node_modules/") + "node_modules/".length)
const bare = () =>
  Object.entries(lock.packages).filter(([place, entry]) =>
    place.includes("node_modules/") && entry.link !== true && !/^sha512-/u.test(entry.integrity ?? "")
  )
const specOf = ([place, entry]) => `${nameOf(place, entry)}@${entry.version}`

if (process.argv.includes("--fill")) {
  for (const [place, entry] of bare()) {
    const asked = spawnSync("npm", ["view", specOf([place, entry]), "dist.integrity"], { encoding: "utf8" })
    const integrity = asked.status === 0 ? asked.stdout.trim() : ""
    if (!integrity.startsWith("sha512-")) continue
    const { version, ...rest } = entry
    const name = nameOf(place, entry)
    const resolved = `https://registry.npmjs.org/${name}/-/${name.split("/").at(-1)}-${version}.tgz`
    lock.packages[place] = { version, resolved, integrity, ...rest }
  }
  writeFileSync(lockFile, `${JSON.stringify(lock, null, 2)}\n`)
  writeFileSync(listFile, `${JSON.stringify(bare().map(specOf).filter((spec) => known.has(spec)).sort(), null, 2)}\n`)
}

const missing = bare().map(specOf)
const strangers = missing.filter((spec) => !known.has(spec))
const hosts = Object.values(lock.packages).flatMap(({ link, resolved = "" }) =>
  link === true || resolved === "" || resolved.startsWith("https://registry.npmjs.org/") ? [] : [resolved]
)
for (const spec of strangers) process.stderr.write(`package-lock.json has no SHA-512 of ${spec}. Run: node scripts/check-lock.mjs --fill\n`)
for (const spec of known) {
  if (!missing.includes(spec)) process.stderr.write(`${spec} is in scripts/check-lock.unpinned.json for nothing: take it out\n`)
}
for (const resolved of hosts) process.stderr.write(`package-lock.json names another registry: ${resolved}\n`)
if (strangers.length + hosts.length > 0 || [...known].some((spec) => !missing.includes(spec))) process.exitCode = 1
