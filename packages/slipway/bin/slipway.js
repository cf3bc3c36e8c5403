#!/usr/bin/env node
// Plain JavaScript that any Node can read: it must be able to say that it is too old for the rest.
const minimum = [22, 19]
const [major = 0, minor = 0] = process.versions.node.split(".").map(Number)
if (major < minimum[0] || (major === minimum[0] && minor < minimum[1])) {
  process.stderr.write(
    `Slipway needs Node ${minimum.join(".")} or newer, but this is Node ${process.versions.node}. ` +
      "Run it through npm (npm start), which uses the Node 24 that npm ci installs; " +
      "if that is missing, install scripts were off: npm rebuild node.\n"
  )
  process.exit(1)
}
if (process.argv.length === 3 && ["--version", "-v", "version"].includes(process.argv[2])) {
  // Everything else is loaded in a second or so: a question asked this often need not wait for it.
  const { readFileSync } = await import("node:fs")
  const { version } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"))
  process.stdout.write(`slipway v${version}\n`)
  process.exit(0)
}
const { enableCompileCache } = await import("node:module")
const { fileURLToPath } = await import("node:url")
const { setFlagsFromString } = await import("node:v8")
// Compiled once, not at each start: a third less time and memory. In a folder of ours, because what lies there is run.
enableCompileCache(fileURLToPath(new URL("../node_modules/.cache/compiled", import.meta.url)))
// Loading leaves much behind at once; the heap would stay grown for it. From then on it grows as it is used.
setFlagsFromString("--semi-space-growth-factor=1")
// By its name: TypeScript in the workspace, JavaScript where the package was installed.
await import("slipway/main")
setFlagsFromString("--semi-space-growth-factor=2")
