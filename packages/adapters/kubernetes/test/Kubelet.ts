/**
 * A node of one machine, this one: it starts the processes of pods, gives them their volumes as folders and their addresses on the loopback
 * interface, and tells the API server their state. As root, containers have the capabilities that they ask for and no other. With network
 * namespaces they are containers of bubblewrap, each in one namespace, with a read-only root of their own.
 */
import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { chmodSync, existsSync, lstatSync, mkdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from "node:fs"
import path from "node:path"
import type { ApiServer, Stored } from "./ApiServer.ts"

const isRoot = process.getuid?.() === 0

/** How a pod is treated, before it is there. */
export type Treatment = "run" | "no node" | "no image" | "crash" | "stuck"

/** A namespace that `ip netns` knows, and its address. */
export interface Network {
  readonly name: string
  readonly address: string
}

export interface Options {
  /** Where volumes are, a folder for each pod. */
  readonly folder: string
  /** The networks of containers; each is used by one at a time. */
  readonly networks?: ReadonlyArray<Network>
  /** Whether pods are containers also where there are no networks for them: what runs in them finds folders where the pod has them. */
  readonly contains?: boolean
  /** The parts of this machine that containers see beside its system. */
  readonly sees?: ReadonlyArray<string>
}

interface Running {
  readonly network: Network | undefined
  readonly folder: string
  /** The folder on this machine of each mount. */
  readonly places: ReadonlyArray<readonly [mountPath: string, folder: string]>
  readonly ip: string
  child: ChildProcess | undefined
  restarts: number
  /** It is not started again. */
  isOver: boolean
  isLeaving: boolean
}

const childrenOf = (pid: number): ReadonlyArray<number> => {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ").filter((one) => one !== "").map(Number)
  } catch {
    return []
  }
}

/** With those that it started. */
const end = (child: ChildProcess | undefined) => {
  if (child?.pid === undefined || child.exitCode !== null || child.signalCode !== null) return
  const all = [child.pid]
  for (const pid of all) all.push(...childrenOf(pid))
  for (const pid of all) {
    try {
      process.kill(pid, "SIGKILL")
    } catch {
      // It has just ended.
    }
  }
}

// As it was sent: what Kubernetes checks by its schemas.
// oxlint-disable-next-line typescript/no-explicit-any
type Container = any

/** The rights of a container for what runs without a root of its own, in a process namespace: with its first process all end. */
const confined = ({ securityContext: { allowPrivilegeEscalation, capabilities } }: Container): ReadonlyArray<string> => [
  ...["unshare", "--pid", "--mount-proc", "--fork", "--kill-child=SIGKILL", "--"],
  ...["setpriv", ...(allowPrivilegeEscalation === false ? ["--no-new-privs"] : []), "--inh-caps=-all"],
  `--bounding-set=-all,${capabilities.add.map((name: string) => `+${name.toLowerCase()}`).join(",")}`,
  "--"
]

/** This machine's system, as an image: links into /usr, or folders of their own, and what is public in /etc. */
const SYSTEM = ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"].filter((at) => existsSync(at))
const ETC = ["alternatives", "ld.so.cache", "localtime", "nsswitch.conf", "os-release", "passwd", "group", "ssl/certs"].map((name) =>
  `/etc/${name}`
)
  .filter((at) => existsSync(at))

const isLink = (at: string) => lstatSync(at).isSymbolicLink()

/** A container of bubblewrap, with what it was asked for. bubblewrap always refuses new privileges. */
const contained = (
  { network, places }: Running,
  { securityContext }: Container,
  command: ReadonlyArray<string>,
  sees: ReadonlyArray<string>
) => {
  const ways = [...ETC, ...sees, ...places.map(([mountPath]) => mountPath)].flatMap((at) =>
    at.split("/").slice(1, -1).map((_, i, names) => `/${names.slice(0, i + 1).join("/")}`)
  )
  const isReadOnly = securityContext.readOnlyRootFilesystem === true
  return [
    ...(network === undefined ? [] : ["ip", "netns", "exec", network.name]),
    ...["bwrap", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--as-pid-1", "--die-with-parent"],
    ...["--new-session", "--hostname", "sandbox", "--clearenv", "--setenv", "PATH", `${path.dirname(process.execPath)}:/usr/bin:/bin`],
    ...["--cap-drop", "ALL", ...securityContext.capabilities.add.flatMap((right: string) => ["--cap-add", `CAP_${right}`])],
    ...[...new Set(ways)].sort().flatMap((at) => ["--perms", "0755", "--dir", at]),
    ...["--ro-bind", "/usr", "/usr", ...SYSTEM.flatMap((at) => isLink(at) ? ["--symlink", readlinkSync(at), at] : ["--ro-bind", at, at])],
    ...[...ETC, ...sees].flatMap((at) => ["--ro-bind", at, at]),
    ...["--proc", "/proc", "--dev", "/dev"],
    ...places.flatMap(([mountPath, folder]) => ["--bind", folder, mountPath]),
    ...(isReadOnly ? ["--remount-ro", "/dev", "--remount-ro", "/"] : []),
    "--",
    ...command
  ]
}

let nextAddress = (process.pid % 200) * 65_536

export class Kubelet {
  treatment: Treatment = "run"
  /** A node that does not answer: its pods never end. */
  isLost = false
  readonly #server: ApiServer
  readonly #running = new Map<string, Running>()
  readonly #options: Options

  constructor(server: ApiServer, options: Options) {
    this.#server = server
    this.#options = options
    server.listeners.push((plural, type, object) => {
      if (plural !== "pods") return
      if (type === "ADDED") void this.#start(object)
      else if (type === "DELETED") void this.#stop(object)
      else if (object.metadata.deletionTimestamp !== undefined && !this.isLost) void this.#leave(object)
    })
  }

  close() {
    for (const running of this.#running.values()) {
      running.isOver = true
      end(running.child)
      rmSync(running.folder, { recursive: true, force: true })
    }
  }

  folderOf(pod: string): string {
    return path.join(this.#options.folder, pod)
  }

  /** The place on this machine of a path in the pod's container. */
  placeOf(pod: string, inContainer: string): string {
    const uid = this.#server.get("pods", pod)?.metadata.uid ?? ""
    const found = this.#running.get(uid)?.places.find(([mountPath]) => inContainer.startsWith(mountPath))
    if (found === undefined) throw new Error(`nothing is mounted at ${inContainer}`)
    return found[1] + inContainer.slice(found[0].length)
  }

  /** The container's first process is killed, as when memory runs out. */
  kill(pod: string) {
    end(this.#running.get(this.#server.get("pods", pod)?.metadata.uid ?? "")?.child)
  }

  /** As when the pod took more disk than it may. */
  evict(pod: string) {
    const found = this.#server.get("pods", pod)
    const running = this.#running.get(found?.metadata.uid ?? "")
    if (running === undefined) throw new Error("it does not run")
    running.isOver = true
    end(running.child)
    this.#server.change("pods", pod, {
      status: {
        phase: "Failed",
        reason: "Evicted",
        message: "Usage of EmptyDir volume \"workspace\" exceeds the limit \"1Gi\".",
        containerStatuses: null
      }
    })
  }

  async #start(pod: Stored) {
    const { name, uid } = pod.metadata
    const folder = this.folderOf(name)
    mkdirSync(folder)
    const [container] = pod.spec.containers
    const number = nextAddress++
    const taken = [...this.#running.values()].map(({ network }) => network)
    const network = this.#options.networks?.find((one) => !taken.includes(one))
    if (network === undefined && this.#options.networks !== undefined) throw new Error("all networks are taken")
    const running: Running = {
      network,
      folder,
      places: container.volumeMounts.map((mount: { name: string; mountPath: string }) => [mount.mountPath, path.join(folder, mount.name)]),
      ip: network?.address ?? `127.${1 + (number >> 16) % 254}.${(number >> 8) & 255}.${1 + number % 254}`,
      child: undefined,
      restarts: 0,
      isOver: false,
      isLeaving: false
    }
    this.#running.set(uid, running)
    const tell = (status: unknown) => this.#server.get("pods", name)?.metadata.uid === uid && this.#server.change("pods", name, { status })
    if (this.treatment === "no node") {
      const message = "0/3 nodes are available: 3 Insufficient memory."
      tell({ phase: "Pending", conditions: [{ type: "PodScheduled", status: "False", reason: "Unschedulable", message }] })
      return
    }
    const waiting = (reason: string, message: string, more = {}) =>
      tell({
        phase: "Pending",
        containerStatuses: [{ name: container.name, ready: false, state: { waiting: { reason, message } }, ...more }]
      })
    if (this.treatment === "no image") {
      waiting("ErrImagePull", "pull access denied")
      waiting("ImagePullBackOff", `Back-off pulling image "${container.image}": ErrImagePull: not found`)
      return
    }
    if (this.treatment === "crash") {
      const terminated = { exitCode: 1, reason: "Error", message: "runner: the settings are no JSON\n" }
      waiting("CrashLoopBackOff", "back-off 10s restarting failed container", { restartCount: 3, lastState: { terminated } })
      return
    }
    waiting("ContainerCreating", "")
    if (this.treatment === "stuck") return
    for (const { emptyDir, name: volume, secret } of pod.spec.volumes) {
      const at = path.join(folder, volume)
      mkdirSync(at)
      if (emptyDir !== undefined) chmodSync(at, 0o777)
      if (secret === undefined) continue
      const found = await this.#secret(secret.secretName, running)
      if (found === undefined) return
      const items: ReadonlyArray<{ key: string; path: string }> = secret.items ??
        Object.keys(found["data"]).map((key) => ({ key, path: key }))
      for (const { key, path: file } of items) {
        const data: unknown = found["data"][key]
        // Until the Secret has it, a pod does not start.
        if (data === undefined) return
        writeFileSync(path.join(at, file), this.#here(running, Buffer.from(String(data), "base64").toString()), {
          mode: secret.defaultMode
        })
      }
    }
    this.#run(pod, running, tell)
  }

  /** Volumes wait for their Secrets. */
  async #secret(name: string, running: Running): Promise<Stored | undefined> {
    while (!running.isOver) {
      const found = this.#server.get("secrets", name)
      if (found !== undefined) return found
      await this.#server.changed()
    }
    return undefined
  }

  /** Settings as they are here, where a container has no file system of its own. */
  #here({ ip, network, places }: Running, text: string): string {
    if (network !== undefined) return text
    const settings = JSON.parse(text)
    if (this.#options.contains === true) return JSON.stringify({ ...settings, listen: { ...settings.listen, host: ip } })
    const here = (inContainer: string) => {
      const found = places.find(([mountPath]) => inContainer === mountPath || inContainer.startsWith(`${mountPath}/`))
      if (found === undefined) throw new Error(`nothing is mounted at ${inContainer}`)
      return found[1] + inContainer.slice(found[0].length)
    }
    return JSON.stringify({
      ...settings,
      listen: { ...settings.listen, host: ip },
      tree: here(settings.tree),
      home: here(settings.home),
      folders: settings.folders.map(here),
      state: here(settings.state),
      user: isRoot ? settings.user : undefined
    })
  }

  #run(pod: Stored, running: Running, tell: (status: unknown) => unknown) {
    const { ip, places } = running
    const [container] = pod.spec.containers
    const here = (argument: string) => {
      // Programs of the image, which is this machine: also where they lie below a folder that pods have a volume at, as /tmp.
      if (existsSync(argument)) return argument
      const place = places.find(([mountPath]) => argument === mountPath || argument.startsWith(`${mountPath}/`))
      return place === undefined ? argument : place[1] + argument.slice(place[0].length)
    }
    const variables: ReadonlyArray<{ name: string; valueFrom: { fieldRef: { fieldPath: string } } }> = container.env ?? []
    const told: ReadonlyArray<string> = container.command.map((argument: string) =>
      argument.replaceAll(/\$\((\w+)\)/gu, (all, name) => {
        const field = variables.find((one) => one.name === name)?.valueFrom.fieldRef.fieldPath
        return field === "metadata.uid" ? pod.metadata.uid : all
      })
    )
    const isContained = running.network !== undefined || this.#options.contains === true
    const [command = "", ...args] = isContained
      ? contained(running, container, told, this.#options.sees ?? [])
      : [...(isRoot ? confined(container) : []), ...told.map(here)]
    const child = spawn(command, args, {
      cwd: "/",
      stdio: ["ignore", "pipe", "pipe"],
      env: { PATH: `${path.dirname(process.execPath)}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin` }
    })
    running.child = child
    let stderr = ""
    child.stderr.on("data", (bytes) => stderr = (stderr + String(bytes)).slice(-2048))
    const status = (more: unknown, ready: boolean) => ({
      phase: "Running",
      podIP: ip,
      conditions: [{ type: "PodScheduled", status: "True" }, { type: "Ready", status: ready ? "True" : "False" }],
      containerStatuses: [{ name: container.name, ready, restartCount: running.restarts, ...(more as object) }]
    })
    tell(status({ state: { running: { startedAt: new Date().toISOString() } } }, false))
    void once(child.stdout, "data").then(() => tell(status({ state: { running: { startedAt: "" } } }, true)), () => {})
    child.once("exit", (exitCode) => {
      if (running.isOver) return
      running.restarts++
      const terminated = { exitCode: exitCode ?? 137, reason: "Error", message: stderr }
      if (running.restarts > 3) {
        const waiting = { reason: "CrashLoopBackOff", message: "back-off restarting failed container" }
        return tell(status({ state: { waiting }, lastState: { terminated } }, false))
      }
      tell(status({ state: { waiting: { reason: "Restarting" } }, lastState: { terminated } }, false))
      this.#run(pod, running, tell)
    })
  }

  async #leave({ metadata: { deletionGracePeriodSeconds = 30, finalizers = [], name, uid } }: Stored) {
    const running = this.#running.get(uid)
    if (running === undefined || running.isLeaving) return
    running.isOver = true
    running.isLeaving = true
    const { child } = running
    if (child !== undefined && child.exitCode === null && child.signalCode === null) {
      const timer = setTimeout(() => end(child), deletionGracePeriodSeconds * 1000)
      // The wrapper of a container hands no signal on.
      const first = isRoot ? childrenOf(child.pid ?? -1)[0] : child.pid
      if (first !== undefined) process.kill(first, "SIGTERM")
      await once(child, "exit")
      clearTimeout(timer)
    }
    if (this.#server.get("pods", name)?.metadata.uid === uid && finalizers.length === 0) this.#server.remove("pods", name)
  }

  async #stop({ metadata: { uid } }: Stored) {
    const running = this.#running.get(uid)
    if (running === undefined) return
    running.isOver = true
    end(running.child)
    this.#running.delete(uid)
    if (existsSync(running.folder)) rmSync(running.folder, { recursive: true, force: true })
  }
}
