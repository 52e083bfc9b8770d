"""Hosts that are network namespaces of this machine, and how MPI starts ranks on them.

  with Hosts(2) as hosts:
      hosts.shape("1gbit")
      job = Mpi("openmpi", folder).launch(hosts, ranks=2, program=[...], work=folder)
"""
import os
import shutil
import signal
import subprocess

DEADLINE = 120  # seconds for one job

# The hosts are one machine, and MPICH's UCX would find that out and share memory.
OVER_THE_NETWORK = {"UCX_TLS": "tcp,self"}


def why_no_hosts():
    """Why Hosts cannot be made here; nothing if they can."""
    if os.geteuid() != 0 or not shutil.which("ip"):
        return "network namespaces need root and iproute2"
    try:
        with Hosts(2):
            return None
    except subprocess.CalledProcessError as error:
        return f"network namespaces cannot be made here: {error.stderr.decode().strip()}"


class Hosts:
    """Namespaces with host names of their own, joined by a bridge."""

    def __init__(self, count):
        self.mark = f"z{os.getpid() % 100000}"
        self.names = [f"{self.mark}h{i}" for i in range(1, count + 1)]
        self.count = count

    def address(self, host):
        return f"10.77.0.{self.names.index(host) + 1}"

    def __enter__(self):
        try:
            run("ip", "netns", "add", f"{self.mark}net")
            inside = ["ip", "netns", "exec", f"{self.mark}net"]
            # The bridge has a namespace, too: nothing is seen of it outside.
            run(*inside, "ip", "link", "add", "br0", "type", "bridge")
            run(*inside, "ip", "link", "set", "br0", "up")
            for name in self.names:
                run("ip", "netns", "add", name)
                port = f"p{self.names.index(name)}"
                run(*inside, "ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", name)
                run(*inside, "ip", "link", "set", port, "master", "br0", "up")
                run("ip", "netns", "exec", name, "ip", "addr", "add", self.address(name) + "/24", "dev", "eth0")
                run("ip", "netns", "exec", name, "ip", "link", "set", "eth0", "up")
                run("ip", "netns", "exec", name, "ip", "link", "set", "lo", "up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for name in [*self.names, f"{self.mark}net"]:
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)

    def on(self, host, *words):
        run("ip", "netns", "exec", host, *words)

    def shape(self, rate):
        """Every host sends at most so fast."""
        for name in self.names:
            self.on(name, "tc", "qdisc", "replace", "dev", "eth0", "root", "tbf", "rate", rate,
                    "burst", "256kb", "latency", "50ms")

    def cut(self, host):
        """Nothing comes from it or to it any more."""
        self.on(host, "ip", "link", "set", "eth0", "down")

    def heal(self, host):
        self.on(host, "ip", "link", "set", "eth0", "up")

    def processes(self, host):
        out = subprocess.run(["ip", "netns", "pids", host], check=True, capture_output=True, text=True).stdout
        return [int(word) for word in out.split()]

    def sent_bytes(self, host):
        """As its interface counts them."""
        path = "/sys/class/net/eth0/statistics/tx_bytes"
        out = subprocess.run(self.command(host, ["cat", path]), check=True, capture_output=True, text=True).stdout
        return int(out)

    def command(self, host, words):
        """What runs on a host: in its namespace, with its name."""
        script = f"hostname {host}; exec \"$@\""
        return ["ip", "netns", "exec", host, "unshare", "--uts", "sh", "-c", script, "sh", *words]


def run(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


class Mpi:
    def __init__(self, name, folder):
        self.name = name
        self.bin = folder / name / "bin"

    def library(self):
        return next((self.bin.parent / "lib").glob("libmpi.so.*"))

    def exists(self):
        return (self.bin / "mpirun").exists()

    def launch(self, hosts, ranks, program, work, variables=None, interface="eth0"):
        """Starts `ranks` on each host, from the first one."""
        agent = work / "agent"
        # Called as ssh would be: [options] host command...
        agent.write_text(
            "#!/bin/bash\n"
            "while [[ $1 == -* ]]; do shift; done\n"
            "host=$1; shift\n"
            + "".join(f'[[ $host == {hosts.address(h)} ]] && host={h}\n' for h in hosts.names)
            + 'exec ip netns exec "$host" unshare --uts sh -c "hostname $host; $*"\n')
        agent.chmod(0o755)
        environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                       "OMP_NUM_THREADS": "1", **OVER_THE_NETWORK, **(variables or {})}
        if self.name == "openmpi":
            environment["PRTE_MCA_plm_ssh_agent"] = str(agent)
            words = [str(self.bin / "mpirun"), "--with-ft", "ulfm", "--bind-to", "none",
                     "-n", str(ranks * hosts.count), "--host", ",".join(f"{h}:{ranks}" for h in hosts.names),
                     "--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", interface]
        else:
            words = [str(self.bin / "mpirun"), "-launcher", "ssh", "-launcher-exec", str(agent),
                     "-hosts", ",".join(hosts.address(h) for h in hosts.names), "-ppn", str(ranks),
                     "-iface", interface, "-n", str(ranks * hosts.count)]
        return subprocess.Popen(hosts.command(hosts.names[0], [*words, *program]), env=environment,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                start_new_session=True)


def finish(job, deadline=DEADLINE):
    """What it printed; nothing of it is left."""
    try:
        out, _ = job.communicate(timeout=deadline)
    except subprocess.TimeoutExpired:
        os.killpg(job.pid, signal.SIGKILL)
        out, _ = job.communicate()
        raise AssertionError(f"it hangs:\n{out}")
    return out
