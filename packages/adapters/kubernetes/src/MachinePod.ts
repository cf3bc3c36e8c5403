/**
 * The pod of a machine: a container whose first process starts the runner as root of the pod's own user namespace, and processes of the
 * sandbox as another user without capabilities. It reaches no network and sees no file of the node.
 */
import type { Limits } from "@slipway/machine/host/Limits"
import { type Order, PLACES, settingsOf } from "@slipway/runner/machines/Machines"
import * as Labels from "./Labels.ts"
import { PODS } from "./ObjectSchemas.ts"
import type { PodTemplate } from "./PodTemplate.ts"

/** The runner's port in every pod, which the network policy names. */
export const PORT = 4003

/** Its path in the service's own image. */
export const RUNNER = "/opt/slipway/node_modules/slipway/dist/runner/Runner.main.js"

const SETTINGS_FOLDER = "/etc/slipway-runner"
const SETTINGS_FILE = "settings.json"
const CONTAINER = "runner"

/** How long the runner may take to end its processes when it is asked to end. */
export const GRACE_SECONDS = 10

/** Resource requests, in percent of the limits: what a node has to have free. */
const REQUEST_PERCENT = 25

/** Disk for the runner's state and logs, beside the sandbox's disk. */
const OWN_DISK_BYTES = 64 * 2 ** 20

/** The settings that all machines of an installation share. */
export interface Template {
  readonly namespace: string
  /** The installation: the same for all workers of a database. */
  readonly installation: string
  /** The name of the worker's machine, from its data folder. */
  readonly machine: string
  /** With Node, git and the runner. */
  readonly image: string
  /** In the image. */
  readonly runner: string
  readonly podTemplate: PodTemplate
  /** Root of the container is an unprivileged user on the node. Without it, the runtime class has to keep the two apart. */
  readonly userNamespaces: boolean
  readonly limits: Limits
}

/** The owner of objects, of the same namespace: they are deleted with it. */
export interface Owner {
  readonly apiVersion: string
  readonly kind: string
  readonly name: string
  readonly uid: string
}

/**
 * The capabilities of the container, all within the level baseline of Pod Security. The runner starts processes as another user (SETUID,
 * SETGID), ends them (KILL), reads and writes that user's files (DAC_OVERRIDE) and gives them to that user (CHOWN, FOWNER). The processes
 * that it starts have none of them, and cannot get them.
 */
const CAPABILITIES = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID"]

/**
 * Every user may write to the folders that a pod starts with. Arguments: the runner's state, the folder for temporary files, limits, `--`,
 * the command.
 */
const SCRIPT = `set -e
chmod 0700 "$1"
chmod 1777 "$2"
shift 2
while [ "$1" != -- ]; do
  prlimit --pid $$ "$1" || echo "runner: the limit $1 is not in force" >&2
  shift
done
shift
if command -v tini > /dev/null; then set -- tini -- "$@"; fi
exec "$@"`

const limitsOf = ({ limits, userNamespaces }: Template): ReadonlyArray<string> => [
  "--core=0",
  `--nofile=${limits.openFiles}`,
  `--fsize=${limits.fileBytes}`,
  // Without a user namespace the kernel would count the processes of all sandboxes of a node together.
  ...(userNamespaces ? [`--nproc=${limits.processes}`] : [])
]

const specOf = (template: Template, secretName: string) => {
  const { limits, podTemplate } = template
  const limited = {
    memory: limits.memoryBytes,
    "ephemeral-storage": limits.diskBytes + OWN_DISK_BYTES
  }
  const milliCpus = Math.round(limits.cpus * 1000)
  const part = (whole: number) => Math.max(1, Math.ceil(whole * REQUEST_PERCENT / 100))
  const disk = { emptyDir: { sizeLimit: String(limits.diskBytes) } }
  const memory = { emptyDir: { medium: "Memory", sizeLimit: String(limits.memoryFilesBytes) } }
  return {
    ...podTemplate.spec,
    restartPolicy: "Always",
    terminationGracePeriodSeconds: GRACE_SECONDS,
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    hostname: "sandbox",
    // Kubernetes requires a server; nothing listens there.
    dnsPolicy: "None",
    dnsConfig: { nameservers: ["127.0.0.1"] },
    ...(template.userNamespaces ? { hostUsers: false } : {}),
    securityContext: { runAsUser: 0, runAsGroup: 0, seccompProfile: { type: "RuntimeDefault" } },
    containers: [{
      name: CONTAINER,
      image: template.image,
      command: [
        "/bin/sh",
        "-c",
        SCRIPT,
        CONTAINER,
        PLACES.state,
        "/tmp",
        ...limitsOf(template),
        "--",
        "node",
        template.runner,
        `${SETTINGS_FOLDER}/${SETTINGS_FILE}`
      ],
      workingDir: "/",
      ports: [{ name: "runner", containerPort: PORT, protocol: "TCP" }],
      // Only a startup probe: each later probe would take one of the few connections that a runner accepts at once.
      startupProbe: { tcpSocket: { port: PORT }, periodSeconds: 1, failureThreshold: 60 },
      // The runner prints the reason of its end in one line.
      terminationMessagePolicy: "FallbackToLogsOnError",
      resources: {
        limits: {
          cpu: `${milliCpus}m`,
          memory: String(limited.memory),
          "ephemeral-storage": String(limited["ephemeral-storage"])
        },
        requests: {
          cpu: `${part(milliCpus)}m`,
          memory: String(part(limited.memory)),
          "ephemeral-storage": String(part(limited["ephemeral-storage"]))
        }
      },
      securityContext: {
        privileged: false,
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ["ALL"], add: CAPABILITIES }
      },
      volumeMounts: [
        { name: "settings", mountPath: SETTINGS_FOLDER, readOnly: true },
        { name: "state", mountPath: PLACES.state },
        { name: "workspace", mountPath: PLACES.workspace },
        { name: "home", mountPath: PLACES.home },
        { name: "repositories", mountPath: PLACES.repositories },
        { name: "tmp", mountPath: "/tmp" },
        { name: "shm", mountPath: "/dev/shm" }
      ]
    }],
    volumes: [
      // 0400, for root alone: the runner does not start if a group may read the file.
      { name: "settings", secret: { secretName, defaultMode: 0o400 } },
      { name: "state", emptyDir: { sizeLimit: String(OWN_DISK_BYTES / 2) } },
      { name: "workspace", ...disk },
      { name: "home", ...disk },
      { name: "repositories", ...disk },
      { name: "tmp", ...memory },
      { name: "shm", ...memory }
    ]
  }
}

/** Autoscalers leave the pod alone: until a checkpoint is taken, its files are nowhere else. */
const STAYS = {
  "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
  "karpenter.sh/do-not-disrupt": "true"
}

const labelsOf = (template: Template, order: Pick<Order, "sandboxId" | "fence">): Readonly<Record<string, string>> => ({
  "app.kubernetes.io/name": "slipway",
  [Labels.COMPONENT]: Labels.COMPONENT_NAME,
  [Labels.INSTALLATION]: template.installation,
  [Labels.MACHINE]: template.machine,
  [Labels.SANDBOX]: order.sandboxId,
  [Labels.FENCE]: String(order.fence)
})

const settingsText = (order: Order): string => JSON.stringify({ ...settingsOf(order), listen: { host: "0.0.0.0", port: PORT } })

/** The name contains a digest of the settings, so that a pod never gets an earlier Secret that Kubernetes has not deleted yet. */
export const secretNameOf = ({ installation }: Pick<Template, "installation">, order: Order): string =>
  `${Labels.nameOf(installation, order.sandboxId)}-${Labels.digestOf(settingsText(order)).slice(0, 16)}`

/** The template's labels under ours. */
export const podLabelsOf = (template: Template, order: Pick<Order, "sandboxId" | "fence">) => ({
  ...template.podTemplate.labels,
  ...labelsOf(template, order)
})

export const pod = (template: Template, order: Order, owner: Owner | null) => ({
  apiVersion: PODS.apiVersion,
  kind: PODS.kind,
  metadata: {
    name: Labels.nameOf(template.installation, order.sandboxId),
    namespace: template.namespace,
    labels: podLabelsOf(template, order),
    annotations: {
      ...template.podTemplate.annotations,
      [Labels.CERTIFICATE]: Labels.digestOf(order.identity.certificate),
      ...STAYS
    },
    ...(owner === null ? {} : { ownerReferences: [owner] })
  },
  spec: specOf(template, secretNameOf(template, order))
})

/** Holds the runner's key. It is deleted with its owner, the pod. */
export const secret = (template: Template, order: Order, owner: Owner) => ({
  apiVersion: "v1",
  kind: "Secret",
  type: "Opaque",
  immutable: true,
  metadata: {
    name: secretNameOf(template, order),
    namespace: template.namespace,
    labels: labelsOf(template, order),
    ownerReferences: [owner]
  },
  stringData: { [SETTINGS_FILE]: settingsText(order) }
})
