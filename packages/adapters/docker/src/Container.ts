/** The configuration of a box's container, as the daemon's API has it. An allow list: the container has nothing that is not named here. */
import type { Launch } from "@slipway/machine/box/BoxKind"
import { EGRESS_SOCKET, SCRATCH, WORKSPACE } from "@slipway/machine/files/BoxPaths"
import type * as Ownership from "@slipway/machine/users/Ownership"
import type { ContainerCreateOptions } from "dockerode"
import { dirname } from "node:path"

/** Labels that tell us, and people who list containers, the purpose of a container. */
export const labels = { instance: "dev.slipway.instance", sandbox: "dev.slipway.sandbox", worker: "dev.slipway.worker" }

interface Sight extends Omit<Launch, "image"> {
  readonly image: string
  readonly labels: Readonly<Record<string, string>>
  /** The user of its processes, inside and on the machine. */
  readonly runsAs: Ownership.User
  readonly seccompProfile: string
}

const bind = (Source: string, Target: string, ReadOnly: boolean) => ({ Type: "bind" as const, Source, Target, ReadOnly })

export const options = (sight: Sight): ContainerCreateOptions => {
  const { folder, limits, runsAs } = sight
  return {
    Image: sight.image,
    Labels: { ...sight.labels },
    Hostname: "sandbox",
    User: `${runsAs.uid}:${runsAs.gid}`,
    // A name without a value removes the variable that the daemon would set.
    Env: ["HOSTNAME", ...Object.entries(sight.environment).map(([name, value]) => `${name}=${value}`)],
    WorkingDir: WORKSPACE,
    // The image's own entry point is not used.
    Entrypoint: [...sight.command],
    Cmd: [],
    Healthcheck: { Test: ["NONE"] },
    OpenStdin: true,
    StdinOnce: true,
    AttachStdin: true,
    AttachStdout: true,
    AttachStderr: true,
    HostConfig: {
      // The first process: it ends with the command, passes signals on, and reaps orphans.
      Init: true,
      AutoRemove: false,
      LogConfig: { Type: "none", Config: {} },
      NetworkMode: "none",
      IpcMode: "private",
      CapDrop: ["ALL"],
      SecurityOpt: ["no-new-privileges", `seccomp=${sight.seccompProfile}`],
      ReadonlyRootfs: true,
      Mounts: [
        ...sight.readOnly.map((path) => bind(path, path, true)),
        ...sight.etcFiles.map((name) => bind(`${folder.etc}/${name}`, `/etc/${name}`, true)),
        bind(folder.home, folder.homeInBox, false),
        bind(folder.scratch, SCRATCH, false),
        bind(sight.workspace, WORKSPACE, sight.isReading),
        ...(sight.hasWayOut ? [bind(folder.socket, EGRESS_SOCKET, true)] : [])
      ],
      Tmpfs: {
        "/tmp": `rw,nosuid,nodev,exec,size=${limits.memoryFilesBytes},mode=1777`,
        ...(sight.hasWayOut ? { [dirname(EGRESS_SOCKET)]: "rw,nosuid,nodev,noexec,size=4096,mode=0755" } : {})
      },
      ShmSize: limits.memoryFilesBytes,
      Memory: limits.memoryBytes,
      // The same: no swap.
      MemorySwap: limits.memoryBytes,
      PidsLimit: limits.processes,
      NanoCpus: Math.round(limits.cpus * 1e9),
      ...(sight.processors === null ? {} : { CpusetCpus: sight.processors }),
      Ulimits: [
        { Name: "core", Soft: 0, Hard: 0 },
        { Name: "fsize", Soft: limits.fileBytes, Hard: limits.fileBytes },
        { Name: "nofile", Soft: limits.openFiles, Hard: limits.openFiles }
      ],
      // If memory runs out, the kernel ends a box before the service.
      OomScoreAdj: 500
    }
  }
}
