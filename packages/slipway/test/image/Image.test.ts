/**
 * The image of `Dockerfile`, with the options that docs/deploy.md and compose.yaml run it with. `BASE` names another base, and
 * `SLIPWAY_DOCKER_SOCKET` another daemon than the machine's. The network is the machine's: a daemon may have none of its own.
 */
import { Effect } from "effect"
import { execFile } from "node:child_process"
import { readFileSync } from "node:fs"
import path from "node:path"
import { afterAll, assert, beforeAll, describe, it } from "vitest"
import { parse } from "yaml"
import { freePort } from "../commands/SlipwayProcess.ts"

const root = path.resolve(import.meta.dirname, "../../../..")
const socket = process.env["SLIPWAY_DOCKER_SOCKET"]
const IMAGE = "slipway-test-image:1"
const MEBIBYTE = 2 ** 20

interface Ended {
  readonly code: number
  readonly output: string
}

const docker = (...args: ReadonlyArray<string>) =>
  new Promise<Ended>((resolve) => {
    const env = { ...process.env, ...socket === undefined ? {} : { DOCKER_HOST: `unix://${socket}` } }
    execFile("docker", args, { cwd: root, env, maxBuffer: 64 * MEBIBYTE }, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code), output: stdout + stderr }))
  })

const must = async (...args: ReadonlyArray<string>) => {
  const { code, output } = await docker(...args)
  assert.strictEqual(code, 0, output)
  return output.trim()
}

/** The permissions of a service's containers in compose.yaml, as options of `docker run`. */
const confined = (service: string): ReadonlyArray<string> => {
  const { cap_drop, read_only, security_opt, tmpfs } = parse(readFileSync(path.join(root, "compose.yaml"), "utf8"), { merge: true })
    .services[service]
  assert.isTrue(read_only)
  return [
    "--network=host",
    "--read-only",
    ...cap_drop.map((name: string) => `--cap-drop=${name}`),
    ...tmpfs.map((mount: string) => `--tmpfs=${mount}`),
    ...security_opt.map((option: string) => `--security-opt=${option.replace(/^seccomp[:=]/u, "seccomp=")}`)
  ]
}

const worker = confined("worker-1")
const boxes = ["--env=SLIPWAY_ISOLATION=bubblewrap"]
const left: Array<string> = []

beforeAll(async () => {
  const base = process.env["BASE"]
  await must("build", "--network=host", ...base === undefined ? [] : [`--build-arg=BASE=${base}`], `--tag=${IMAGE}`, ".")
})

afterAll(async () => {
  for (const name of left) await docker("rm", "--force", "--volumes", name)
})

describe("the image", () => {
  it("runs as a user of its own and has neither sources nor what they are built with", async () => {
    assert.match(await must("run", "--rm", "--network=host", IMAGE, "--version"), /^slipway v/u)
    const sh = (script: string) => must("run", "--rm", "--network=host", "--entrypoint=sh", IMAGE, "-c", script)
    assert.strictEqual(await sh("id -u; stat -c %U:%a /var/lib/slipway"), "10001\nslipway:770")
    assert.strictEqual(await sh("find / -xdev -writable -user 10001 -not -path '/proc/*' 2>/dev/null || true"), "/var/lib/slipway")
    assert.strictEqual(
      await sh("ls /src 2>&1; find /opt/slipway -name '*.ts' -path '*@slipway*' -not -name '*.d.ts' | head -1"),
      "ls: cannot access '/src': No such file or directory"
    )
    assert.strictEqual(await sh("cd /opt/slipway/node_modules && ls -d typescript vitest turbo node 2>/dev/null | cat"), "")
  })

  it("says in one line what a user that the system does not know lacks", async () => {
    const unknown = ["run", "--rm", "--network=host", "--user=1001230000:0", "--read-only"]
    const lines = async (...options: ReadonlyArray<string>) => {
      const { code, output } = await docker(...unknown, ...options, IMAGE, "serve")
      assert.strictEqual(code, 1, output)
      assert.match(output, /^slipway: [^\n]+\n$/u)
      return output
    }
    assert.include(await lines(), "/tmp")
    assert.include(await lines("--tmpfs=/tmp"), "does not know the user 1001230000")
    assert.include(await lines("--tmpfs=/tmp", "--env=HOME="), "does not know the user 1001230000")
  })

  it("does the whole job of the demo with a read-only root, no capability and boxes of bubblewrap", async () => {
    const { code, output } = await docker("run", "--rm", ...worker, ...boxes, IMAGE, "demo")
    assert.strictEqual(code, 0, output)
    assert.match(output, /^Done in /mu)
    const doctor = await docker("run", "--rm", ...worker, ...boxes, IMAGE, "doctor")
    assert.match(doctor.output, /isolation +bubblewrap/u, doctor.output)
    for (const layer of ["namespaces", "system calls", "files", "network"]) {
      assert.match(doctor.output, new RegExp(`✓ +box: ${layer} `, "u"), doctor.output)
    }
  })

  it("starts no agent where the container withholds what boxes are made of, and says what helps", async () => {
    for (const option of ["seccomp=", "systempaths="]) {
      const withheld = worker.filter((given) => !given.includes(option))
      assert.lengthOf(withheld, worker.length - 1)
      const { code, output } = await docker("run", "--rm", ...withheld, ...boxes, IMAGE, "demo")
      assert.notStrictEqual(code, 0, output)
      assert.include(output, "--security-opt", output)
    }
  })

  it("is healthy while it may be asked, and ends by itself when it is stopped", async () => {
    const port = await Effect.runPromise(freePort)
    const name = `slipway-test-${process.pid}`
    left.push(name)
    await must("run", "--detach", `--name=${name}`, "--health-interval=1s", ...worker, ...boxes, `--env=SLIPWAY_PORT=${port}`, IMAGE)
    const health = () => must("inspect", "--format={{.State.Health.Status}}", name)
    while (await health() === "starting") await new Promise((later) => setTimeout(later, 200))
    assert.strictEqual(await health(), "healthy", (await docker("logs", name)).output)
    await must("stop", "--time=100", name)
    assert.strictEqual(await must("inspect", "--format={{.State.ExitCode}}", name), "0", (await docker("logs", name)).output)
  })
})
