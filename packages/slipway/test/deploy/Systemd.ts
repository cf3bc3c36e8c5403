/** A real systemd that runs one unit of `deploy/systemd`, in namespaces of its own; the network is the machine's. Needs root. */
import { Effect } from "effect"
import { execFile, spawn, spawnSync } from "node:child_process"
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import path from "node:path"
import { folder } from "../commands/SlipwayProcess.ts"
import { file, workspace } from "./Deploy.ts"

const SYSTEMD = "/lib/systemd/systemd"

/** The second version's hierarchy, on its own or beside the first one's. */
const hierarchy = /^\S+ (\S+) cgroup2 /mu.exec(readFileSync("/proc/self/mounts", "utf8"))?.[1]

/** The missing requirement; `null`: none. */
export const lacking: string | null = process.getuid?.() !== 0
  ? "root"
  : hierarchy === undefined
  ? "control groups of version 2"
  : spawnSync(SYSTEMD, ["--version"]).status !== 0
  ? "systemd"
  : spawnSync("unshare", ["--pid", "--mount", "--cgroup", "--uts", "--ipc", "--fork", "true"]).status !== 0
  ? "namespaces"
  : spawnSync("bwrap", ["--version"]).status !== 0
  ? "bubblewrap"
  : null

/** Runs as the first process of the namespaces: an empty /var, /tmp and /run, and the workspace where the units look for it. */
const boot = (shared: string, unit: string) =>
  `set -e
mount --make-rprivate /
mkdir ${shared}/upper ${shared}/work
mount -t overlay overlay -o lowerdir=/etc,upperdir=${shared}/upper,workdir=${shared}/work /etc
mkdir -p /etc/slipway
cp ${shared}/slipway.env /etc/slipway/slipway.env
cp ${shared}/machine-id /etc/machine-id
systemd-sysusers ${file("systemd/slipway.sysusers")}
mount -t tmpfs -o mode=755 tmpfs /opt
mkdir -p /opt/slipway /opt/shared
mount --bind ${workspace} /opt/slipway
mount --bind ${shared} /opt/shared
for covered in /run /var /tmp; do mount -t tmpfs -o mode=1777 tmpfs $covered; done
chmod 755 /run /var
mkdir -p /run/systemd/system/${unit}.d /var/lib /var/tmp
cp /opt/slipway/deploy/systemd/${unit} /run/systemd/system/
cp /opt/shared/test.conf /run/systemd/system/${unit}.d/
umount --lazy --recursive /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
exec env -i container=slipway-test PATH=/usr/sbin:/usr/bin:/sbin:/bin \\
  ${SYSTEMD} --system --unit=${unit} --log-target=console --show-status=no
`

export interface Unit {
  /** The output of the service, with its log. */
  readonly output: () => string
  /** Runs a program beside systemd. Answers its output. */
  readonly run: (program: string, ...args: ReadonlyArray<string>) => Effect.Effect<string>
}

/** Boots it with that unit and settings added to `slipway.env`. Gone with the scope, with all that runs in it. */
export const start = Effect.fnUntraced(function*(unit: string, settings: Readonly<Record<string, string>>) {
  const shared = yield* folder
  const output = path.join(shared, "output")
  writeFileSync(output, "")
  copyFileSync(file("systemd/slipway.env"), path.join(shared, "slipway.env"))
  writeFileSync(
    path.join(shared, "slipway.env"),
    Object.entries(settings).map(([name, value]) => `${name}=${value}\n`).join(""),
    { flag: "a" }
  )
  writeFileSync(path.join(shared, "machine-id"), "0123456789abcdef0123456789abcdef\n")
  writeFileSync(
    path.join(shared, "test.conf"),
    "[Unit]\nDefaultDependencies=no\n[Service]\nStandardOutput=append:/opt/shared/output\nStandardError=append:/opt/shared/output\n"
  )
  writeFileSync(path.join(shared, "boot"), boot(shared, unit))
  const group = path.join(hierarchy ?? "", `slipway-test-${path.basename(shared)}`)
  mkdirSync(group)
  const child = yield* Effect.acquireRelease(
    Effect.sync(() => {
      const namespaces = `unshare --pid --mount --cgroup --uts --ipc --fork --kill-child --mount-proc sh ${shared}/boot`
      const made = spawn("sh", ["-c", `echo $$ > ${group}/cgroup.procs; exec ${namespaces}`], { stdio: ["ignore", "pipe", "pipe"] })
      for (const stream of [made.stdout, made.stderr]) stream.on("data", (said: Buffer) => writeFileSync(output, said, { flag: "a" }))
      return made
    }),
    (made) =>
      Effect.promise(async () => {
        const gone = new Promise<void>((resolve) => made.once("close", () => resolve()))
        made.kill("SIGKILL")
        await gone
        // Its groups are empty as soon as the kernel has taken the processes away.
        while (spawnSync("find", [group, "-depth", "-type", "d", "-exec", "rmdir", "{}", "+"]).status !== 0) {
          await new Promise((later) => setTimeout(later, 50))
        }
      })
  )
  const read = () => readFileSync(output, "utf8")
  const run: Unit["run"] = (program, ...args) =>
    Effect.callback((resume) => {
      const [first = ""] = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, "utf8").split(" ")
      execFile("nsenter", ["--target", first, "--mount", "--pid", program, ...args], (_, stdout, stderr) =>
        resume(Effect.succeed(stdout + stderr)))
    })
  return { output: read, run } satisfies Unit
})
