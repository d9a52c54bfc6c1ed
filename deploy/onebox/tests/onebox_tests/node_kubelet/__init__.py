"""Tests of the kubelet side of onebox's node."""
