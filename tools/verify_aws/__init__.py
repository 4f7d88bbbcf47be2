"""What we believe about AWS and no emulator can show: the list, and a script that asks AWS."""
