/**
 * The script that runs in the machine, with its `sh` and its git, as the sandbox's user. Processes of the sandbox may have changed
 * anything that it works on, and harm only the sandbox.
 *
 * Arguments: what to do, the folder of the repositories, that of the workspace, and
 *
 *     make    NAME FOLDER SITE BASE SHA COMMITTED    makes the repository NAME and the tree FOLDER on a site
 *     put     NAME FOLDER SITE                       moves them in the place of what is there; says how the kernel is called
 *     leave   NAME FOLDER SITE                       deletes the site
 *     ask     NAME...                                says how the kernel is called, then of each NAME which site made it
 *     remove                                         deletes all
 *
 * To `make` comes: files of the repository (`git/PATH`) and of the agent's (`agents/PATH`), each its path, its lines and an empty
 * one; an empty one; a pack of all that SHA, COMMITTED and BASE have. A site is beside the place that it is for, under a name that
 * no repository has.
 */
export const SCRIPT = `
set -e
umask 022
what=$1 repositories=$2 workspace=$3
shift 3

delete() { rm -rf -- "$@" 2> /dev/null || { chmod -R u+rwX -- "$@" 2> /dev/null || :; rm -rf -- "$@"; }; }
kernel() { cat /proc/sys/kernel/random/boot_id 2> /dev/null || echo; }

if [ "$what" = ask ]; then
  kernel
  for name; do
    if said=$(head -c 100 "$repositories/$name/slipway" 2>&1); then
      printf '%s\\n' "$said" | head -n 1
      continue
    fi
    case $said in
      *"No such file or directory" | *"Not a directory") echo ;;
      # It may be there.
      *) printf '%s\\n' "$said" >&2; exit 1 ;;
    esac
  done
  exit
fi

if [ "$what" = remove ]; then
  for folder in "$workspace" "$repositories"; do
    if [ -d "$folder" ]; then cd "$folder"; delete ./* ./.[!.]* ./..?*; fi
  done
  exit
fi

name=$1 folder=$2
git=$repositories/.making+$name+$3
tree=$workspace/.making+$name+$3
shift 3

if [ "$what" = leave ]; then
  delete "$git" "$tree"
  exit
fi

if [ "$what" = put ]; then
  delete "$workspace/$folder" "$repositories/$name"
  mv -T -- "$tree" "$workspace/$folder"
  mv -T -- "$git" "$repositories/$name"
  kernel
  exit
fi

base=$1 sha=$2 committed=$3
# Of workers that were killed.
delete "$repositories/.making+$name+"* "$workspace/.making+$name+"*
agents=$tree/.git
for place in "$git" "$agents"; do mkdir -p "$place/objects/info" "$place/objects/pack" "$place/refs" "$place/info"; done
while IFS= read -r path && [ -n "$path" ]; do
  case $path in
    git/*) file=$git/\${path#git/} ;;
    agents/*) file=$agents/\${path#agents/} ;;
  esac
  while IFS= read -r line && [ -n "$line" ]; do printf '%s\\n' "$line"; done > "$file"
done
export GIT_DIR="$git" GIT_WORK_TREE="$tree"
git index-pack --stdin > /dev/null
cd "$tree"
git read-tree -m -u "$sha"

# What the indexes know of files that are as they were stays known; what differs is a change that nobody committed.
index=$git/index
if [ "$committed" != "$base" ]; then
  cp -p "$index" "$agents/index"
  [ "$sha" = "$committed" ] || GIT_INDEX_FILE=$agents/index git read-tree -m "$committed"
fi
[ "$sha" = "$base" ] || git read-tree -m "$base"
[ -e "$agents/index" ] || cp -p "$index" "$agents/index"
printf '%s\\n' "\${git##*+}" > "$git/slipway"
`
