"""What the chapters on noise share: kicked descent in a valley, and the problems that kicks are tried on."""
