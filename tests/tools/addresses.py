"""Addresses that pods may reach through Homeport's doors to the internet, and those that they may not:
one table for the policy of a namespace and for the embedded cluster's proxy."""

# Whatever the settings say.
CLOSED = (
    *("0.0.0.0", "127.0.0.1", "127.8.8.8", "224.0.0.1", "255.255.255.255"),
    *("169.254.169.254", "168.63.129.16", "192.0.0.192", "100.100.100.200", "100.64.0.1"),
    *("192.0.2.1", "198.18.0.1", "198.51.100.7", "203.0.113.7", "192.88.99.1"),
    *("::1", "::", "fe80::1", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1"),
    *("64:ff9b:1::a9fe:a9fe", "100::1", "2001:db8::1", "3fff::1", "5f00::1", "4000::1"),
    # With an address of IPv4 inside.
    *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::7f00:1"),
    *("64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b::a83f:8110", "2002:7f00:1::"),
    "2001:0:4136:e378:8000:63bf:80ff:fffe",
)
# Closed by CLUSTER_CIDRS, as it is when nobody changed it.
PRIVATE = ("10.0.0.1", "10.96.0.1", "10.244.0.1", "172.16.0.1", "172.31.255.254", "192.168.1.1")
OPEN = ("93.184.216.34", "8.8.8.8", "168.63.129.17", "100.63.0.1", "2606:2800:220:1::1")
